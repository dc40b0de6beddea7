//! The format of a page of metrics: OpenMetrics, or Prometheus's own text.

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format, version 0.0.4.
    Text,
}

impl MetricsFormat {
    /// The format's content type on the wire.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format that an `Accept` header asks for first. If it names neither, the answer is text, which every tool
    /// reads.
    pub fn from_accept(accept: &str) -> MetricsFormat {
        let weight_of = |format: &str| {
            let named = accept.split(',').map(str::trim);
            let named = named.filter(|range| {
                range
                    .split(';')
                    .next()
                    .is_some_and(|kind| kind.trim() == format)
            });
            named.map(weight).fold(0.0, f32::max)
        };
        let open = weight_of("application/openmetrics-text");
        match open > 0.0 && open >= weight_of("text/plain") {
            true => MetricsFormat::OpenMetrics,
            false => MetricsFormat::Text,
        }
    }
}

/// The `q` of a media range.
fn weight(range: &str) -> f32 {
    let mut said = range.split(';').skip(1);
    let weight = said.find_map(|said| said.trim().strip_prefix("q=")?.parse().ok());
    weight.unwrap_or(1.0)
}

/// Prometheus's text format: a counter's family has the name of its samples, and there are no units and no end mark.
pub(super) fn as_text(page: &str) -> String {
    let mut text = String::with_capacity(page.len() + page.len() / 8);
    let mut help = None;
    for line in page.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ').map(|(_, help)| help);
        } else if let Some((family, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|said| said.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some(help) = help.take() {
                text.push_str(&format!("# HELP {family}{suffix} {help}\n"));
            }
            text.push_str(&format!("# TYPE {family}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_as_the_caller_would_like_it_best() {
        let asked = [
            ("", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("text/plain; version=0.0.4", MetricsFormat::Text),
            ("application/openmetrics-text", MetricsFormat::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                MetricsFormat::OpenMetrics,
            ),
            (
                "text/plain, application/openmetrics-text; q=0.5",
                MetricsFormat::Text,
            ),
            ("application/openmetrics-text;q=0", MetricsFormat::Text),
        ];
        for (accept, format) in asked {
            assert_eq!(MetricsFormat::from_accept(accept), format, "{accept}");
        }
    }

    #[test]
    fn in_text_a_counter_is_announced_by_the_name_of_its_samples() {
        let page = "# HELP a Help.\n# TYPE a counter\n# UNIT a seconds\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let text = "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(as_text(page), text);
    }
}
