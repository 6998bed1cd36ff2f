//! The order of a search's parts: the filter, then BM25 and the dense part in parallel.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dyad_index::Snapshot;
use dyad_proto::admission::Admitted;
use tokio::sync::oneshot;

use super::gather::{DenseSearch, Gather};
use super::resources::cancellation::SearchCancellation;
use super::resources::pool::{RequestClass, SearchPools, finish};
use super::stages::answer::Answers;
use crate::error::Result;
use crate::plan::SearchCost;

/// Runs the parts of one call.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    pool: &'a SearchPools,
    pub(super) class: RequestClass,
    /// The cost of the whole call.
    cost: SearchCost,
    /// Held by the work itself, which still counts where it goes on after the client has left.
    permit: Arc<Admitted>,
    pub(super) cancel: Arc<SearchCancellation>,
    /// Whether its place is among batches and streams, which wait for their places and are not refused.
    pub(super) is_queued: bool,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        pool: &'a SearchPools,
        class: RequestClass,
        cost: SearchCost,
        permit: Admitted,
        cancel: Arc<SearchCancellation>,
    ) -> Self {
        Self {
            pool,
            class,
            cost,
            permit: Arc::new(permit),
            cancel,
            is_queued: false,
        }
    }

    /// From now on single searches run on threads that share no shards, where the snapshot has one.
    pub(super) fn choose_threads(&mut self, snapshot: &Snapshot) {
        self.class = self.class.over(snapshot.shards().len());
    }

    /// For bulk work of the same call, which has turned out to cost this much: refused as one that comes now, unless it
    /// queues.
    pub(super) fn for_bulk(&self, cost: SearchCost) -> Result<Self> {
        let permit = if self.is_queued {
            Arc::clone(&self.permit)
        } else {
            Arc::new(
                self.pool
                    .admit(RequestClass::Bulk, cost.total(), self.cancel.remaining())?,
            )
        };
        let (class, cancel) = (RequestClass::Bulk, Arc::clone(&self.cancel));
        Ok(Self {
            pool: self.pool,
            class,
            cost,
            permit,
            cancel,
            is_queued: self.is_queued,
        })
    }

    /// Starts work that makes an answer now; the future waits for its result until the deadline.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + '_ {
        self.start_part(self.cost.answer, work)
    }

    /// Starts a dense search that makes an answer, too.
    pub(super) fn start_dense<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + '_ {
        self.start_part(self.cost.late(), work)
    }

    fn start_part<T: Send + 'static>(
        &self,
        cost: Duration,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + '_ {
        let permit = Arc::clone(&self.permit);
        let result = self.pool.spawn(self.class, cost, move || {
            let _permit = permit;
            work()
        });
        async move { finish(result, &self.cancel).await? }
    }

    /// Runs the given parts and returns the results of BM25 and of the dense part. The filter starts at once, and BM25
    /// follows it on the same thread. The dense part starts as soon as the vectors and the filter's result are there,
    /// whether BM25 is done or not.
    pub(super) async fn run_parts<A, T, D>(
        &self,
        filter: Option<impl FnOnce() -> Result<A> + Send + 'static>,
        text: Option<impl FnOnce(&A) -> Result<T> + Send + 'static>,
        vectors: impl Future<Output = Result<()>>,
        dense: Option<impl FnOnce(Arc<A>) -> D>,
    ) -> Result<[Option<T>; 2]>
    where
        D: Future<Output = Result<T>>,
        A: Default + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (send_allowed, allowed_sent) = oneshot::channel();
        let allowed_sent = filter.is_some().then_some(allowed_sent);
        let early = (filter.is_some() || text.is_some()).then(|| {
            self.start_part(self.cost.early(), move || {
                let allowed = match filter.map_or_else(|| Ok(A::default()), |filter| filter()) {
                    Ok(allowed) => Arc::new(allowed),
                    Err(error) => {
                        // The receiver is gone once the client has left.
                        _ = send_allowed.send(Err(error));
                        return Ok(None);
                    }
                };
                _ = send_allowed.send(Ok(Arc::clone(&allowed)));
                text.map(|text| text(&allowed)).transpose()
            })
        });
        let allowed = async {
            match allowed_sent {
                Some(sent) => finish(sent, &self.cancel).await?,
                None => Ok(Arc::default()),
            }
        };
        let ((), allowed) = tokio::try_join!(vectors, allowed)?;
        let dense = async {
            match dense {
                Some(dense) => dense(allowed).await.map(Some),
                None => Ok(None),
            }
        };
        let (text, dense) = tokio::try_join!(part(early), dense)?;
        Ok([text, dense])
    }

    /// Starts a dense search together with others that wait for a thread; the future waits for its result until the
    /// deadline.
    pub(super) fn gather(
        &self,
        gather: &Arc<Gather>,
        search: impl FnOnce(Arc<Admitted>, oneshot::Sender<Result<Option<Answers>>>) -> DenseSearch,
    ) -> impl Future<Output = Result<Option<Answers>>> + '_ {
        let (done, result) = oneshot::channel();
        gather.add(search(Arc::clone(&self.permit), done));
        let (gather, threads) = (Arc::clone(gather), self.pool.threads(self.class));
        self.pool
            .start(self.class, self.cost.late(), move || gather.run(threads));
        async move { finish(result, &self.cancel).await? }
    }
}

async fn part<T>(result: Option<impl Future<Output = Result<Option<T>>>>) -> Result<Option<T>> {
    match result {
        Some(result) => result.await,
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::super::resources::cancellation::CancelOnDrop;
    use super::*;
    use crate::error::Error;

    fn jobs(pool: &SearchPools) -> (Jobs<'_>, CancelOnDrop) {
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_secs(20));
        let cost = SearchCost::default();
        let permit = pool
            .admit(RequestClass::Interactive, cost.total(), Duration::from_hours(1))
            .unwrap();
        (Jobs::new(pool, RequestClass::Interactive, cost, permit, cancel), guard)
    }

    type NoFilter = fn() -> Result<u32>;
    type NoPart = fn(&u32) -> Result<&'static str>;
    type NoDense = fn(Arc<u32>) -> std::future::Ready<Result<&'static str>>;

    /// BM25 ends only when the dense part has begun, and that only when the vectors are there, which come only when the
    /// filter is done: any other order would wait for ever.
    #[tokio::test]
    async fn the_dense_part_waits_for_filter_and_vectors_and_not_for_bm25() {
        let pool = SearchPools::with_threads(8, 2).unwrap();
        let (jobs, _guard) = jobs(&pool);
        let (filtered, after_filter) = oneshot::channel();
        let (begun, after_dense) = mpsc::channel();
        let filter = move || {
            filtered.send(()).unwrap();
            Ok(7)
        };
        let text = move |allowed: &u32| {
            assert_eq!(*allowed, 7);
            after_dense.recv().map_err(|_| Error::Internal)?;
            Ok("text")
        };
        let vectors = async { after_filter.await.map_err(|_| Error::Internal) };
        let dense = |allowed: Arc<u32>| {
            jobs.start(move || {
                assert_eq!(*allowed, 7);
                begun.send(()).unwrap();
                Ok("dense")
            })
        };
        let parts = jobs
            .run_parts(Some(filter), Some(text), vectors, Some(dense))
            .await
            .unwrap();
        assert_eq!(parts, [Some("text"), Some("dense")]);
    }

    #[tokio::test]
    async fn parts_that_are_not_asked_for_do_not_run() {
        let pool = SearchPools::with_threads(8, 1).unwrap();
        let (jobs, _guard) = jobs(&pool);
        let dense = |allowed: Arc<u32>| async move {
            if *allowed == 0 {
                Ok("dense")
            } else {
                Err(Error::Internal)
            }
        };
        let parts = jobs
            .run_parts(None::<NoFilter>, None::<NoPart>, async { Ok(()) }, Some(dense))
            .await
            .unwrap();
        assert_eq!(parts, [None, Some("dense")]);
        let text = |_: &u32| Ok("text");
        let parts = jobs
            .run_parts(None::<NoFilter>, Some(text), async { Ok(()) }, None::<NoDense>)
            .await
            .unwrap();
        assert_eq!(parts, [Some("text"), None]);
    }

    #[tokio::test]
    async fn an_error_of_any_part_is_that_of_all() {
        let pool = SearchPools::with_threads(8, 1).unwrap();
        let (jobs, _guard) = jobs(&pool);
        let fails = |name: &str| Err(Error::NoDocument(name.to_owned()));
        let ok = |_: &u32| Ok("ok");
        let dense = |_: Arc<u32>| async { Ok("ok") };
        let by_filter = jobs
            .run_parts(Some(move || fails("filter")), Some(ok), async { Ok(()) }, Some(dense))
            .await;
        assert!(matches!(by_filter, Err(Error::NoDocument(name)) if name == "filter"));
        let vectors = async { Err(Error::TowerLate(Duration::ZERO)) };
        let by_tower = jobs.run_parts(None::<NoFilter>, Some(ok), vectors, Some(dense)).await;
        assert!(matches!(by_tower, Err(Error::TowerLate(_))));
        let text = |_: &u32| Err(Error::NoDocument("text".to_owned()));
        let by_text = jobs
            .run_parts(None::<NoFilter>, Some(text), async { Ok(()) }, Some(dense))
            .await;
        assert!(matches!(by_text, Err(Error::NoDocument(name)) if name == "text"));
    }
}
