//! The order of a search's parts: the filter, then BM25 and the dense part side by side.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::pool::{Class, Pool, finish};
use super::stop::Stop;
use crate::error::Result;

/// Where the parts of one call run.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    pool: &'a Pool,
    pub(super) class: Class,
    /// Held by the work itself: what goes on after the client has left still counts.
    permit: Arc<OwnedSemaphorePermit>,
    pub(super) stop: Arc<Stop>,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(pool: &'a Pool, class: Class, permit: OwnedSemaphorePermit, stop: Arc<Stop>) -> Self {
        Self { pool, class, permit: Arc::new(permit), stop }
    }

    /// Starts work now; the future waits for its result until the deadline.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + '_ {
        let permit = Arc::clone(&self.permit);
        let result = self.pool.spawn(self.class, move || {
            let _permit = permit;
            work()
        });
        async move { finish(result, &self.stop).await? }
    }

    /// Runs the parts that there are, and gives what BM25 and the dense part give. The filter starts at once, and BM25 follows
    /// it on the same thread; the dense part starts as soon as there are the vectors and what the filter allows, whether
    /// BM25 is done or not.
    pub(super) async fn side_by_side<A, T>(
        &self,
        filter: Option<impl FnOnce() -> Result<A> + Send + 'static>,
        text: Option<impl FnOnce(&A) -> Result<T> + Send + 'static>,
        vectors: impl Future<Output = Result<()>>,
        dense: Option<impl FnOnce(&A) -> Result<T> + Send + 'static>,
    ) -> Result<[Option<T>; 2]>
    where
        A: Default + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let told = filter.is_some().then_some(told);
        let early = (filter.is_some() || text.is_some()).then(|| {
            self.start(move || {
                let allowed = match filter.map_or_else(|| Ok(A::default()), |filter| filter()) {
                    Ok(allowed) => Arc::new(allowed),
                    Err(error) => {
                        // Nobody listens once the client has left.
                        _ = tell.send(Err(error));
                        return Ok(None);
                    }
                };
                _ = tell.send(Ok(Arc::clone(&allowed)));
                text.map(|text| text(&allowed)).transpose()
            })
        });
        let allowed = async {
            match told {
                Some(told) => finish(told, &self.stop).await?,
                None => Ok(Arc::default()),
            }
        };
        let ((), allowed) = tokio::try_join!(vectors, allowed)?;
        let dense = dense.map(|dense| self.start(move || dense(&allowed).map(Some)));
        let (text, dense) = tokio::try_join!(part(early), part(dense))?;
        Ok([text, dense])
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
    use std::time::{Duration, Instant};

    use super::super::stop::Waiting;
    use super::*;
    use crate::error::Error;

    fn jobs(pool: &Pool) -> (Jobs<'_>, Waiting) {
        let (stop, waiting) = Stop::after(Instant::now(), Duration::from_secs(20));
        let permit = pool.admit(Class::Interactive, Duration::from_hours(1)).unwrap();
        (Jobs::new(pool, Class::Interactive, permit, stop), waiting)
    }

    type NoFilter = fn() -> Result<u32>;
    type NoPart = fn(&u32) -> Result<&'static str>;

    /// BM25 ends only when the dense part has begun, and that only when the vectors are there, which come only when the filter
    /// is done: any other order would wait for ever.
    #[tokio::test]
    async fn the_dense_part_waits_for_filter_and_vectors_and_not_for_bm25() {
        let pool = Pool::with_threads(8, 2).unwrap();
        let (jobs, _waiting) = jobs(&pool);
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
        let dense = move |allowed: &u32| {
            assert_eq!(*allowed, 7);
            begun.send(()).unwrap();
            Ok("dense")
        };
        let parts = jobs.side_by_side(Some(filter), Some(text), vectors, Some(dense)).await.unwrap();
        assert_eq!(parts, [Some("text"), Some("dense")]);
    }

    #[tokio::test]
    async fn parts_that_are_not_asked_for_do_not_run() {
        let pool = Pool::with_threads(8, 1).unwrap();
        let (jobs, _waiting) = jobs(&pool);
        let dense = |allowed: &u32| if *allowed == 0 { Ok("dense") } else { Err(Error::Internal) };
        let parts = jobs.side_by_side(None::<NoFilter>, None::<NoPart>, async { Ok(()) }, Some(dense)).await.unwrap();
        assert_eq!(parts, [None, Some("dense")]);
        let text = |_: &u32| Ok("text");
        let parts = jobs.side_by_side(None::<NoFilter>, Some(text), async { Ok(()) }, None::<NoPart>).await.unwrap();
        assert_eq!(parts, [Some("text"), None]);
    }

    #[tokio::test]
    async fn an_error_of_any_part_is_that_of_all() {
        let pool = Pool::with_threads(8, 1).unwrap();
        let (jobs, _waiting) = jobs(&pool);
        let fails = |name: &str| Err(Error::NoDocument(name.to_owned()));
        let ok = |_: &u32| Ok("ok");
        let by_filter = jobs.side_by_side(Some(move || fails("filter")), Some(ok), async { Ok(()) }, Some(ok)).await;
        assert!(matches!(by_filter, Err(Error::NoDocument(name)) if name == "filter"));
        let vectors = async { Err(Error::TowerLate(Duration::ZERO)) };
        let by_tower = jobs.side_by_side(None::<NoFilter>, Some(ok), vectors, Some(ok)).await;
        assert!(matches!(by_tower, Err(Error::TowerLate(_))));
        let text = |_: &u32| Err(Error::NoDocument("text".to_owned()));
        let by_text = jobs.side_by_side(None::<NoFilter>, Some(text), async { Ok(()) }, Some(ok)).await;
        assert!(matches!(by_text, Err(Error::NoDocument(name)) if name == "text"));
    }
}
