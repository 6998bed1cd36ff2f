//! The trace that a request belongs to (W3C `traceparent`): taken over from the caller, and passed on to the servers
//! that are called. With the feature `otlp`; without it nothing is done.

#[cfg(feature = "otlp")]
pub(crate) use traced::{continue_from, pass_on};

#[cfg(feature = "otlp")]
mod traced {
    use opentelemetry::global::get_text_map_propagator;
    use opentelemetry::propagation::{Extractor, Injector};
    use tonic::codegen::http::{HeaderMap, HeaderName};
    use tonic::metadata::{Ascii, MetadataKey, MetadataMap};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(HeaderName::as_str).collect()
        }
    }

    struct InjectedMetadata<'a>(&'a mut MetadataMap);

    impl Injector for InjectedMetadata<'_> {
        fn set(&mut self, key: &str, value: String) {
            if let (Ok(key), Ok(value)) = (key.parse::<MetadataKey<Ascii>>(), value.parse()) {
                self.0.insert(key, value);
            }
        }
    }

    /// Makes a request's span a part of the caller's trace.
    pub(crate) fn continue_from(span: &Span, headers: &HeaderMap) {
        let parent = get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
        // It fails where no traces are exported.
        _ = span.set_parent(parent);
    }

    /// Adds the current span's trace to a call.
    pub(crate) fn pass_on(metadata: &mut MetadataMap) {
        let context = Span::current().context();
        get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut InjectedMetadata(metadata)));
    }
}

#[cfg(not(feature = "otlp"))]
pub(crate) fn continue_from(_: &tracing::Span, _: &tonic::codegen::http::HeaderMap) {}

#[cfg(not(feature = "otlp"))]
pub(crate) fn pass_on(_: &mut tonic::metadata::MetadataMap) {}
