//! Ours over each peer's: speed at equal recall, build time, memory.

use super::curve::{Curve, Outside};
use super::measured::{Asked, EngineRun, Measured, Speed};
use crate::harness::OURS;

/// A name as asked for, with all engines behind it that were measured.
#[derive(Debug, Clone)]
pub struct Family {
    /// The name.
    pub name: String,
    /// Its measured engines.
    pub members: Vec<String>,
    /// Recall against speed on one thread: the best of its engines at each recall.
    pub curve: Curve,
    /// The same of the fastest passes.
    pub fastest: Curve,
    /// The same on all threads.
    pub threaded: Curve,
}

/// Speed of ours over a peer's at one recall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedRatio {
    /// The recall.
    pub target: f64,
    /// The ratio on one thread, or whose curve has no value there and why.
    pub single: Result<f64, (Side, Outside)>,
    /// The same of the fastest passes.
    pub fastest: Result<f64, (Side, Outside)>,
    /// The same on all threads.
    pub threaded: Result<f64, (Side, Outside)>,
    /// Best measured speed at this recall or more over the peer's best: no interpolation.
    pub at_least: Option<f64>,
}

/// Whose curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Ours.
    Ours,
    /// The peer's.
    Peer,
}

/// Ours against one peer.
#[derive(Debug, Clone)]
pub struct Ratios {
    /// The peer.
    pub peer: Family,
    /// One per target.
    pub speed: Vec<SpeedRatio>,
    /// The engine of the family whose build and memory are compared: its fastest at the first target.
    pub representative: String,
    /// Build seconds; `None` where one of the two indexes was kept from an earlier run.
    pub build: Option<f64>,
    /// Resident bytes with the vectors cold, without the baseline.
    pub rss: Option<f64>,
    /// The same after one more pass over the queries.
    pub rss_served: Option<f64>,
    /// Index bytes.
    pub bytes: Option<f64>,
}

impl Measured {
    /// A name with all engines behind it that were measured; `None` where none was.
    pub fn family(&self, asked: &Asked) -> Option<Family> {
        let members: Vec<String> = asked.members.iter().filter(|name| self.engine(name).is_some()).cloned().collect();
        let curve = |speed| self.curve(&members, speed);
        let (curve, fastest, threaded) = (curve(Speed::Median), curve(Speed::Fastest), curve(Speed::AllThreads));
        (!members.is_empty()).then(|| Family { name: asked.name.clone(), members, curve, fastest, threaded })
    }

    /// Ours against every peer asked for; empty where ours was not measured.
    pub fn ratios(&self) -> Vec<Ratios> {
        let Some(ours) = self.family(&Asked::one(OURS)) else { return Vec::new() };
        let Some(our_run) = self.engine(OURS) else { return Vec::new() };
        let peers = self.asked.iter().filter(|asked| asked.name != OURS).filter_map(|asked| self.family(asked));
        peers.map(|peer| self.against(&ours, our_run, peer)).collect()
    }

    fn against(&self, ours: &Family, our_run: &EngineRun, peer: Family) -> Ratios {
        let speed = self.targets.iter().map(|&target| SpeedRatio {
            target,
            single: ratio_at(&ours.curve, &peer.curve, target),
            fastest: ratio_at(&ours.fastest, &peer.fastest, target),
            threaded: ratio_at(&ours.threaded, &peer.threaded, target),
            at_least: self
                .qps_at_least(&ours.members, target)
                .zip(self.qps_at_least(&peer.members, target))
                .map(|(ours, peer)| ours / peer),
        });
        let speed = speed.collect();
        let run = self.representative(&peer.members);
        let representative = run.map_or_else(|| peer.name.clone(), |run| run.described.engine.clone());
        let built_now = !our_run.reused && run.is_some_and(|run| !run.reused);
        let over = |value: fn(&EngineRun) -> f64| {
            let (ours, theirs) = (value(our_run), value(run?));
            (ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
        };
        Ratios {
            speed,
            build: over(|run| run.index.built.build_s).filter(|_| built_now),
            rss: over(|run| run.memory.map_or(0.0, |memory| memory.serving_bytes() as f64)),
            rss_served: over(|run| run.memory.map_or(0.0, |memory| memory.served_bytes() as f64)),
            bytes: over(|run| run.index.built.index_bytes as f64),
            representative,
            peer,
        }
    }
}

fn ratio_at(ours: &Curve, peer: &Curve, recall: f64) -> Result<f64, (Side, Outside)> {
    let peer = peer.qps_at(recall).map_err(|outside| (Side::Peer, outside))?;
    let ours = ours.qps_at(recall).map_err(|outside| (Side::Ours, outside))?;
    Ok(ours / peer)
}
