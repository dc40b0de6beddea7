//! The definition of a metric: its name, its help, and how it is read from its subject.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

#[derive(Clone, Copy)]
enum MetricKind {
    Gauge,
    Counter,
}

/// A metric: its name without unit, its help, and how it is read.
pub(super) struct MetricDefinition<S: 'static> {
    name: &'static str,
    unit: Option<fn() -> Unit>,
    kind: MetricKind,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
}

pub(super) const BYTES: Option<fn() -> Unit> = Some(|| Unit::Bytes);
pub(super) const SECONDS: Option<fn() -> Unit> = Some(|| Unit::Seconds);

pub(super) const fn gauge<S>(
    name: &'static str,
    unit: Option<fn() -> Unit>,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
) -> MetricDefinition<S> {
    MetricDefinition {
        name,
        unit,
        kind: MetricKind::Gauge,
        help,
        read,
    }
}

pub(super) const fn counter<S>(
    name: &'static str,
    unit: Option<fn() -> Unit>,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
) -> MetricDefinition<S> {
    MetricDefinition {
        name,
        unit,
        kind: MetricKind::Counter,
        help,
        read,
    }
}

impl<S> MetricDefinition<S> {
    fn metric_type(&self) -> MetricType {
        match self.kind {
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Counter => MetricType::Counter,
        }
    }

    fn write(&self, value: f64, to: MetricEncoder<'_>) -> fmt::Result {
        match self.kind {
            MetricKind::Gauge => ConstGauge::new(value).encode(to),
            MetricKind::Counter => ConstCounter::new(value).encode(to),
        }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>, source: &S) -> fmt::Result {
        let Some(value) = (self.read)(source) else {
            return Ok(());
        };
        let unit = self.unit.map(|unit| unit());
        self.write(
            value,
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), self.metric_type())?,
        )
    }
}

/// Something of which there are several.
pub(super) trait Labelled {
    /// The labels that tell it from the others.
    fn labels(&self) -> Vec<(&'static str, &str)>;
}

impl<S: Labelled> MetricDefinition<S> {
    pub(super) fn encode_each(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        all: &[S],
    ) -> fmt::Result {
        if all.is_empty() {
            return Ok(());
        }
        let unit = self.unit.map(|unit| unit());
        let mut family =
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), self.metric_type())?;
        for one in all {
            if let Some(value) = (self.read)(one) {
                self.write(value, family.encode_family(&one.labels())?)?;
            }
        }
        Ok(())
    }
}
