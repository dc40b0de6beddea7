//! What a plot shows: panels below each other, under a title.

/// A plot.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What it is of.
    pub title: String,
    /// Where it was measured, in a smaller line; may be empty.
    pub about: String,
    /// What is below.
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
    Ratios(Vec<Ratio>),
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
    /// A pale curve behind the others, without a name; may be empty.
    pub behind: Vec<(f64, f64)>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Where their names are.
    pub names: Corner,
}

/// One named curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// A dashed curve of the same colour; may be empty.
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
    /// In what.
    pub unit: &'static str,
    /// The groups; the first `GROUPS_MAX` are drawn.
    pub groups: Vec<Group>,
    /// What each bar of a group is.
    pub labels: Vec<String>,
}

/// Bars beside each other.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they are of.
    pub name: String,
    /// Their heights, where there are any.
    pub values: Vec<Option<f64>>,
}

/// Groups of bars in a panel at most.
pub(super) const GROUPS_MAX: usize = 16;

/// A ratio and what it is to be.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Of what.
    pub name: String,
    /// The ratio.
    pub ratio: f64,
    /// Its bound, where it has one.
    pub goal: Option<f64>,
    /// Whether it keeps it.
    pub holds: Option<bool>,
}
