//! What a plot shows: panels below each other, under a title.

/// A plot.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Where it was measured, as a smaller line. May be empty.
    pub about: String,
    /// The panels below the title.
    pub panels: Vec<Panel>,
}

/// A part of a plot.
#[derive(Clone, Debug)]
pub enum Panel {
    /// Curves over one pair of axes.
    Curves(Curves),
    /// Groups of bars.
    Bars(Bars),
    /// Ratios, each on a lane of its own.
    Ratios(Vec<RatioMark>),
}

/// Curves over one pair of axes.
#[derive(Clone, Debug)]
pub struct Curves {
    /// What they show.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// A pale curve behind the others, without a name. May be empty.
    pub behind: Vec<(f64, f64)>,
    /// The curves.
    pub curves: Vec<PlotCurve>,
    /// Where the names of the curves stand.
    pub names: Corner,
}

/// One named curve.
#[derive(Clone, Debug)]
pub struct PlotCurve {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// A dashed curve of the same colour. May be empty.
    pub dashed: Vec<(f64, f64)>,
}

/// A corner of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// The upper left one.
    UpperLeft,
    /// The lower right one.
    LowerRight,
}

/// Groups of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What they show.
    pub title: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// The groups. The first `GROUPS_MAX` are drawn.
    pub groups: Vec<BarGroup>,
    /// What each bar of a group is.
    pub labels: Vec<String>,
}

/// Bars beside each other.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// Its name.
    pub name: String,
    /// The heights of the bars, if there are any.
    pub values: Vec<Option<f64>>,
}

/// The most groups of bars in a panel.
pub(super) const GROUPS_MAX: usize = 16;

/// A ratio and its goal.
#[derive(Clone, Debug)]
pub struct RatioMark {
    /// Its name.
    pub name: String,
    /// The ratio.
    pub ratio: f64,
    /// Its bound, if it has one.
    pub goal: Option<f64>,
    /// Whether it keeps the bound.
    pub holds: Option<bool>,
}
