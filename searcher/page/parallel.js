// Many requests, some at a time.

const AT_ONCE = 4;

/** Runs jobs, at most `AT_ONCE` at a time; the first that fails ends all. */
export async function inParallel(jobs, signal, done) {
  let next = 0;
  const worker = async () => {
    while (next < jobs.length && !signal.aborted) {
      const job = jobs[next];
      next += 1;
      await job();
      done();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
