//! Metrics of a server's keys, TLS and audit log, read at each scrape: register a clone of its [`Security`] as a
//! collector.

use std::fmt::Error;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tonic::Code;

use super::security::Security;
use crate::access::{ApiKeys, KeyUsage};
use crate::status::status_name;

impl Collector for Security {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        if let Some(keys) = self.access().keys() {
            encode_keys(&mut encoder, keys)?;
        }
        let (mut reloads, mut stale) = (Vec::new(), Vec::new());
        for (of, counts) in &*self.reloads {
            for (outcome, count) in [("taken over", &counts.taken_over), ("failed", &counts.failed)] {
                reloads.push(([("of", *of), ("outcome", outcome)], count.load(Ordering::Relaxed)));
            }
            stale.push(([("of", *of)], i64::from(counts.are_stale.load(Ordering::Relaxed))));
        }
        counters(
            &mut encoder,
            "security_reloads",
            "Changes of the files of keys and of TLS.",
            &reloads,
        )?;
        let help = "Whether these files have changed and cannot be used, so that the old ones are.";
        gauges(&mut encoder, "security_files_stale", help, &stale)?;
        if let Some(audit) = self.access().audit() {
            let help = "Calls that the audit log should have, and that could not be written.";
            counter(&mut encoder, "audit_lines_lost", help, audit.lost())?;
        }
        let tls = self.tls();
        let failed = tls.map_or(0, |tls| tls.failed_handshakes());
        counter(&mut encoder, "failed_handshakes", "TLS handshakes that failed.", failed)?;
        let help = "End of the TLS certificate, in seconds since the epoch; 0 without TLS.";
        let mut end = encoder.encode_descriptor("certificate_end", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        end.encode_gauge(&tls.map_or(0, |tls| tls.expires()))
    }
}

fn encode_keys(encoder: &mut DescriptorEncoder<'_>, keys: &ApiKeys) -> Result<(), Error> {
    let usage = keys.usage();
    let call = |id: &str, name: &str, code| {
        [
            ("key", id.to_owned()),
            ("name", name.to_owned()),
            ("status", status_name(code).to_owned()),
        ]
    };
    let mut calls = vec![(call("", "", Code::Unauthenticated), keys.unknown())];
    let (mut under_way, mut limits) = (Vec::new(), Vec::new());
    for KeyUsage {
        id,
        name,
        calls: counted,
        under_way: limited,
    } in usage
    {
        let counted = counted.into_iter().filter(|(_, count)| *count > 0);
        calls.extend(counted.map(|(code, count)| (call(&id, &name, code), count)));
        if let Some((now, most)) = limited {
            let key = [("key", id), ("name", name)];
            under_way.push((key.clone(), now as i64));
            limits.push((key, most as i64));
        }
    }
    let help = "Calls by API key and the status of its check: OK let the call through. Without id: no key, or none of this server's.";
    counters(encoder, "api_key_requests", help, &calls)?;
    gauges(
        encoder,
        "api_key_requests_under_way",
        "Calls under way of keys that have a limit.",
        &under_way,
    )?;
    gauges(encoder, "api_key_requests_limit", "That limit.", &limits)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: &[(L, u64)],
) -> Result<(), Error> {
    if series.is_empty() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    series.iter().try_for_each(|(labels, value)| {
        metric
            .encode_family(labels)?
            .encode_counter::<NoLabelSet, _, u64>(value, None)
    })
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: &[(L, i64)],
) -> Result<(), Error> {
    if series.is_empty() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    series
        .iter()
        .try_for_each(|(labels, value)| metric.encode_family(labels)?.encode_gauge(value))
}
