//! Words of memory accesses that say how strong, in which scope and through which cache they are. None of
//! them changes anything here: every access is as strong as a relaxed one of any scope, and there are
//! no caches. But not all of them go together.

use crate::ptx::alu::Modifiers;

const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

/// Ticks off the words of a load; whether it acquires.
///
/// # Errors
/// Words that do not go together.
pub(super) fn load(modifiers: &mut Modifiers<'_>) -> Result<bool, String> {
    let cache = modifiers.one_of(&["ca", "cg", "cs", "lu", "cv"]).is_some();
    let order = order(modifiers, "acquire", cache)?;
    if modifiers.flag("nc") && (order.is_some() || !modifiers.contains("global")) {
        return Err("'.nc' needs the global space and no order".to_owned());
    }
    modifiers.ignore(|word| word.starts_with("L1::") || word.starts_with("L2::"));
    Ok(order == Some("acquire"))
}

/// Ticks off the words of a store; whether it releases.
///
/// # Errors
/// Words that do not go together.
pub(super) fn store(modifiers: &mut Modifiers<'_>) -> Result<bool, String> {
    let cache = modifiers.one_of(&["wb", "cg", "cs", "wt"]).is_some();
    let order = order(modifiers, "release", cache)?;
    modifiers.ignore(|word| word.starts_with("L1::"));
    Ok(order == Some("release"))
}

/// The order of a load or store, which needs a scope if it is one among threads.
fn order(
    modifiers: &mut Modifiers<'_>,
    synchronizes: &'static str,
    cache: bool,
) -> Result<Option<&'static str>, String> {
    let mmio = modifiers.flag("mmio");
    let order = modifiers.one_of(&["weak", "volatile", "relaxed", synchronizes]);
    let scope = modifiers.one_of(&SCOPES);
    let ordered = order == Some("relaxed") || order == Some(synchronizes);
    if ordered != scope.is_some() {
        return Err("an order among threads and a scope belong together".to_owned());
    }
    if mmio && (order != Some("relaxed") || scope != Some("sys")) {
        return Err("'.mmio' needs '.relaxed.sys'".to_owned());
    }
    if cache && (ordered || order == Some("volatile")) {
        return Err("a cache cannot be chosen with this order".to_owned());
    }
    Ok(order)
}

/// Ticks off the words of an atomic operation.
///
/// # Errors
/// Words that do not go together.
pub(super) fn atomic(modifiers: &mut Modifiers<'_>, returns: bool) -> Result<(), String> {
    let order = modifiers.one_of(&["relaxed", "acquire", "release", "acq_rel"]);
    modifiers.one_of(&SCOPES);
    if !returns && matches!(order, Some("acquire" | "acq_rel")) {
        return Err("what returns nothing cannot acquire".to_owned());
    }
    Ok(())
}
