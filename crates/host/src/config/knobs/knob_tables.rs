//! Makes knobs of the daemon from rows. A row holds everything about a knob: its written form, how a value is read,
//! what it means, and how that is shown.

/// Makes three things from the rows, table by table: what was written, the table of knobs, and what it means. A row
/// without `means` is a part of what another row of its table means.
macro_rules! knob_tables {
    (
        $(#[$all_doc:meta])*
        written: $all:ident,
        $(#[$knobs_doc:meta])*
        knobs: $knobs:ident,
        $(#[$names_doc:meta])*
        names: $names:ident,
        $(
            $(#[$room_doc:meta])*
            $table:ident: $written:ident => $config:ident {
                $($name:ident: $said:ty {
                    unit: $unit:expr,
                    default: $default:expr,
                    sample: $sample:expr,
                    why: $why:expr,
                    help: $help:expr,
                    flag: $flag:expr,
                    takes: $takes:expr,
                    set: $set:expr,
                    $(means: { $(#[$doc:meta])* $field:ident: $meant:ty = $mean:expr, },)?
                    show: $show:expr,
                })*
            }
        )*
    ) => {
        $(#[$all_doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $all {
            $(pub(in crate::config) $table: $written,)*
        }

        $(#[$knobs_doc])*
        pub const $knobs: &[$crate::config::knobs::Knob<$all>] = &[$($($crate::config::knobs::Knob {
            table: stringify!($table),
            name: stringify!($name),
            unit: $unit,
            default: $default,
            sample: $sample,
            why: $why,
            help: $help,
            flag: $flag,
            takes: $takes,
            set: |tables, said| {
                type Set = fn(
                    &mut $written,
                    &$crate::config::raw_value::RawValue,
                ) -> Result<(), $crate::config::raw_value::ValueError>;
                let set: Set = $set;
                set(&mut tables.$table, said)
            },
        },)*)*];

        $(#[$names_doc])*
        pub(in crate::config) const $names: &[&str] = &[$(stringify!($table),)*];

        $(
            /// What was set in one table.
            #[derive(Clone, Debug, Default)]
            pub(in crate::config) struct $written {
                $(pub(in crate::config) $name: $said,)*
            }

            $(#[$room_doc])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $config {
                $($($(#[$doc])* pub $field: $meant,)?)*
            }

            impl $written {
                pub(in crate::config) fn meaning(&self) -> $config {
                    $config {
                        $($($field: {
                            let mean: fn(&$written) -> $meant = $mean;
                            mean(self)
                        },)?)*
                    }
                }
            }

            impl $config {
                /// The keys and values, as a file would say them.
                pub(in crate::config) fn shown(&self) -> impl Iterator<Item = (String, String)> {
                    let all: Vec<(&str, Option<String>)> = vec![$((
                        concat!(stringify!($table), ".", stringify!($name)),
                        {
                            let show: fn(&$config) -> Option<String> = $show;
                            show(self)
                        },
                    ),)*];
                    all.into_iter().filter_map(|(key, said)| Some((key.to_owned(), said?)))
                }
            }
        )*
    };
}

pub(super) use knob_tables;
