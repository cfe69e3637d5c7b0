//! The lines of the function table against the typedefs of `cudaTypedefs.h`, which name each
//! function with the version that brought its ABI.

use std::collections::HashMap;

use anyhow::{Result, bail};

/// ABIs that drivers export and that the 13.5 header has no typedef for: older ones, and those that
/// another header has, which is in no package.
const GONE_FROM_THE_HEADER: &[(&str, i32)] = &[
    ("cuStreamBeginCapture", 10000),
    ("cuGraphInstantiate", 10000),
    ("cuGraphInstantiate", 11000),
    ("cuDevicePrimaryCtxRelease", 7000),
    ("cuDevicePrimaryCtxSetFlags", 7000),
    ("cuDevicePrimaryCtxReset", 7000),
    ("cuProfilerStart", 4000),
    ("cuProfilerStop", 4000),
];

/// One line of the table, or one typedef: a name, a version, the types of the arguments.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    name: String,
    since: i32,
    types: Vec<String>,
}

/// What is wrong with the table, one text for each line that is.
pub fn check(table: &str, typedefs: &str) -> Result<Vec<String>> {
    let aliases = Aliases::read(typedefs);
    let known = typedef_signatures(typedefs);
    let lines = table_signatures(table);
    if lines.is_empty() || known.is_empty() {
        bail!("found {} lines and {} typedefs to compare", lines.len(), known.len());
    }
    let faults: Vec<String> =
        lines.iter().filter_map(|line| compare(line, &known, &aliases)).collect();
    println!("{} lines of the function table were compared", lines.len());
    Ok(faults)
}

fn compare(line: &Signature, known: &[Signature], aliases: &Aliases) -> Option<String> {
    let Signature { name, since, types } = line;
    let found = known.iter().find(|typedef| typedef.name == *name && typedef.since == *since);
    let gone = GONE_FROM_THE_HEADER.contains(&(name.as_str(), *since));
    let Some(typedef) = found else {
        let versions: Vec<i32> =
            known.iter().filter(|typedef| typedef.name == *name).map(|t| t.since).collect();
        return (!gone)
            .then(|| format!("{name} @ {since}: the header knows the versions {versions:?}"));
    };
    if gone {
        return Some(format!("{name} @ {since}: is in the header, and listed as gone"));
    }
    let ours: Vec<String> = types.iter().map(|ty| aliases.resolve(ty)).collect();
    let theirs: Vec<String> = typedef.types.iter().map(|ty| aliases.resolve(ty)).collect();
    (ours != theirs).then(|| format!("{name} @ {since}: takes {ours:?}, the header {theirs:?}"))
}

/// The lines `symbol = "name" @ since (argument: type, …);`.
fn table_signatures(table: &str) -> Vec<Signature> {
    table
        .lines()
        .flat_map(|line| line.split(';'))
        .filter_map(|line| {
            let (head, arguments) = line.trim().strip_suffix(')')?.split_once(" (")?;
            let (name, since) = head.split_once(" = ")?.1.split_once(" @ ")?;
            Some(Signature {
                name: name.trim_matches('"').to_owned(),
                since: since.parse().ok()?,
                types: types(arguments),
            })
        })
        .collect()
}

/// The typedefs `pub type PFN_name_vSINCE = Option<unsafe extern "C" fn(argument: type, …) -> …>`.
fn typedef_signatures(typedefs: &str) -> Vec<Signature> {
    typedefs
        .split("pub type PFN_")
        .skip(1)
        .filter_map(|typedef| {
            let (head, rest) = typedef.split_once('=')?;
            let (name, since) = head.trim().rsplit_once("_v")?;
            let since = since.parse().ok()?;
            let name = name.to_owned();
            let (definition, _) = rest.split_once(';')?;
            let Some((_, arguments)) = definition.split_once(" fn(") else {
                // An alias of another typedef has its signature; the table asks for none of them.
                return None;
            };
            let (arguments, _) = arguments.rsplit_once(')')?;
            Some(Signature { name, since, types: types(arguments) })
        })
        .collect()
}

/// The types of `a: A, b: B`.
fn types(arguments: &str) -> Vec<String> {
    let words = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let arguments = words.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    arguments
        .map(|argument| argument.split_once(": ").map_or(argument, |(_, ty)| ty).to_owned())
        .collect()
}

/// What each type name stands for.
struct Aliases(HashMap<String, String>);

impl Aliases {
    fn read(typedefs: &str) -> Aliases {
        let primitive = [
            ("c_uchar", "u8"),
            ("c_ushort", "u16"),
            ("c_int", "i32"),
            ("c_uint", "u32"),
            ("c_ulonglong", "u64"),
        ];
        let primitive = primitive.map(|(name, ty)| (name.to_owned(), ty.to_owned()));
        let aliases = typedefs.lines().filter_map(|line| {
            let (name, ty) =
                line.strip_prefix("pub type ")?.strip_suffix(';')?.split_once(" = ")?;
            Some((name.to_owned(), bare(ty)))
        });
        Aliases(primitive.into_iter().chain(aliases).collect())
    }

    /// The type with each name replaced by what it stands for in the end.
    fn resolve(&self, ty: &str) -> String {
        let ty = bare(ty);
        let (pointers, name) = match ty.rsplit_once(' ') {
            Some((pointers, name)) => (format!("{pointers} "), name),
            None => (String::new(), ty.as_str()),
        };
        match self.0.get(name) {
            Some(stands_for) => pointers + &self.resolve(stands_for),
            None => ty,
        }
    }
}

/// The type without the path of its module.
fn bare(ty: &str) -> String {
    ty.trim().replace("::core::ffi::", "").replace("::core::option::", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPEDEFS: &str = "pub type CUa = *mut CUa_st;\npub type CUd = ::core::ffi::c_ulonglong;\n\
        pub type PFN_cuX_v10000 = ::core::option::Option<\n    unsafe extern \"C\" fn(\n        \
        a: *mut CUa,\n        n: ::core::ffi::c_uint,\n        d: CUd,\n    ) -> CUresult,\n>;\n";

    fn faults(line: &str) -> Vec<String> {
        check(line, TYPEDEFS).unwrap()
    }

    #[test]
    fn a_line_like_the_header_is_sound_whatever_it_calls_its_types() {
        let line = "cuX_v2 = \"cuX\" @ 10000 (a: *mut *mut CUa_st, n: u32, d: u64);";
        assert_eq!(faults(line), Vec::<String>::new());
    }

    #[test]
    fn another_type_is_reported() {
        let faults = faults("cuX = \"cuX\" @ 10000 (a: *mut CUa, n: u64, d: CUd);");
        assert!(faults[0].starts_with("cuX @ 10000: takes"), "{faults:?}");
    }

    #[test]
    fn a_missing_argument_is_reported() {
        let faults = faults("cuX = \"cuX\" @ 10000 (a: *mut CUa, n: u32);");
        assert!(faults[0].starts_with("cuX @ 10000: takes"), "{faults:?}");
    }

    #[test]
    fn a_version_that_the_header_does_not_know_is_reported() {
        let faults = faults("cuX = \"cuX\" @ 10010 (a: *mut CUa, n: u32, d: CUd);");
        assert_eq!(faults, ["cuX @ 10010: the header knows the versions [10000]"]);
    }

    #[test]
    fn a_table_without_lines_is_an_error() {
        assert!(check("", TYPEDEFS).is_err());
    }
}
