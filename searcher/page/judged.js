// Judged questions: those of files and pasted texts, in the forms that the page reads.

let kept = [];

/** Questions that were measured last, to begin a search with. */
export function judgedQuestions() {
  return kept.map(({ query }) => query);
}

/** Remembers judged questions until the page is left. */
export function keep(questions) {
  kept = questions;
}

function jsonLine(line) {
  try {
    const value = JSON.parse(line);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** Gains of keys: a list of keys, or an object of keys and grades. */
function gainsOf(relevant) {
  const pairs = Array.isArray(relevant) ? relevant.map((key) => [String(key), 1]) : Object.entries(relevant ?? {});
  return new Map(pairs.map(([key, gain]) => [key, Number(gain)]).filter(([, gain]) => gain > 0));
}

/** One line of judgements: BEIR's three columns or TREC's four; none where it is neither. */
function judgement(line) {
  const columns = line.includes("\t") ? line.split("\t") : line.split(/\s+/);
  const [id, key, score] = columns.length === 4 ? [columns[0], columns[2], columns[3]] : columns;
  return columns.length >= 3 && columns.length <= 4 && Number.isFinite(Number(score)) ? { id, key, gain: Number(score) } : null;
}

/**
 * Judged questions of texts, each a file: lines of JSON with `query` (or BEIR's `_id` and `text`) and `relevant`, or judgements in columns. The answer has
 * `questions`, each with its text and the gains of its relevant keys, and `left`, sentences about what was left out.
 */
export function judgedOf(texts) {
  const asked = [];
  const byId = new Map();
  let unread = 0;
  texts.forEach((text) =>
    text.split(/\r?\n/).forEach((line, at) => {
      const value = line.trim().startsWith("{") ? jsonLine(line) : null;
      if (value) {
        const query = String(value.query ?? value.text ?? "").trim();
        asked.push({ id: String(value._id ?? value.id ?? ""), query, gains: gainsOf(value.relevant) });
        return;
      }
      const judged = line.trim() ? judgement(line.trim()) : undefined;
      if (judged && judged.gain > 0) {
        byId.set(judged.id, (byId.get(judged.id) ?? new Map()).set(judged.key, judged.gain));
      }
      // The first line of columns may be their names.
      unread += judged === null && at > 0 ? 1 : 0;
    }),
  );
  const all = asked.map(({ id, query, gains }) => ({ query, gains: gains.size ? gains : (byId.get(id) ?? gains) }));
  const questions = all.filter(({ query, gains }) => query && gains.size);
  const without = all.length - questions.length;
  const left = [
    unread > 0 && `${unread} lines could not be read.`,
    without > 0 && questions.length > 0 && `${without} questions have no relevant document, and are left out.`,
  ];
  return { questions, left: left.filter(Boolean) };
}

/** At most that many questions, from all parts of the list. */
export function spread(questions, most) {
  const step = Math.max(1, questions.length / most);
  return Array.from({ length: Math.min(most, questions.length) }, (_, at) => questions[Math.floor(at * step)]);
}
