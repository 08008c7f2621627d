//! Numbers on disk whose known values have names.

/// Defines such a number. A value without a text has its own name, in lower case.
macro_rules! numbers {
    (
        $(#[$of_all:meta])*
        $set:ident($number:ty), others $prefix:literal,
        $($(#[$of_value:meta])* $value:ident = $is:literal $($name:literal)?,)+
    ) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $set(pub $number);

        impl $set {
            $($(#[$of_value])* pub const $value: Self = Self($is);)+

            /// Name in lower case, or the number of one that this build does not know.
            pub fn name(self) -> String {
                match self {
                    $(Self::$value => $crate::numbers::numbers!(@name $value $($name)?),)+
                    Self(other) => format!(concat!($prefix, "_{}"), other),
                }
            }
        }
    };
    (@name $value:ident) => {
        stringify!($value).to_ascii_lowercase()
    };
    (@name $value:ident $name:literal) => {
        $name.to_owned()
    };
}
pub(crate) use numbers;
