//! [`Form`]: an instruction with its types and modifiers, and how it is tried.

use crate::ulps::Bound;
use crate::value::Value;

/// An instruction with its types and modifiers, or a few that only make sense together.
#[derive(Clone, Debug)]
pub struct Form {
    /// What it is called, which no two are: most often the instruction itself.
    pub name: String,
    /// The operands `%a`, `%b`, `%c`, …
    pub inputs: Vec<Value>,
    /// The results `%x`, `%y`, `%z`, …
    pub outputs: Vec<Value>,
    /// The PTX between.
    pub body: String,
    /// How far the result may be from the GPU's; nothing, if there is no bound.
    pub bound: Option<Bound>,
    /// Whether any NaN is as good as another: of two operands that are NaNs, the driver's compiler
    /// chooses by the order of instructions which one a sum of doubles passes on.
    pub any_nan: bool,
}

/// The names of operands and of results.
pub const INPUTS: [&str; 6] = ["%a", "%b", "%c", "%d", "%e", "%f"];
pub const OUTPUTS: [&str; 8] = ["%x", "%y", "%z", "%w", "%s", "%t", "%u", "%v"];

impl Form {
    /// A result as it is compared.
    pub fn settled(&self, at: usize, word: u64) -> u64 {
        let Some(value) = self.outputs.get(at) else { return 0 };
        let word = word & 1_u64.checked_shl(8 * value.bytes() as u32).unwrap_or(0).wrapping_sub(1);
        let is_nan = self.any_nan && *value == Value::F64 && f64::from_bits(word).is_nan();
        if is_nan { f64::NAN.to_bits() } else { word }
    }
}

/// A list of forms that grows.
#[derive(Debug, Default)]
pub struct Forms {
    list: Vec<Form>,
}

/// The forms that a function lists.
pub fn collect(fill: fn(&mut Forms)) -> Vec<Form> {
    let mut forms = Forms::default();
    fill(&mut forms);
    forms.list
}

impl Forms {
    /// An instruction with one result, by the types of its result and its operands.
    pub fn op(&mut self, instruction: impl Into<String>, result: &str, operands: &[&str]) {
        let instruction = instruction.into();
        let body = format!("{instruction} %x, {};", INPUTS[..operands.len()].join(", "));
        self.body(instruction, &[result], operands, body);
    }

    /// Instructions, by the types of their results and their operands.
    pub fn body(
        &mut self,
        name: impl Into<String>,
        results: &[&str],
        operands: &[&str],
        body: impl Into<String>,
    ) {
        let of = |types: &[&str]| types.iter().map(|ty| Value::of(ty)).collect();
        let form = Form {
            name: name.into(),
            inputs: of(operands),
            outputs: of(results),
            body: body.into(),
            bound: None,
            any_nan: false,
        };
        self.list.push(form);
    }

    /// Takes every NaN of the last instructions for the same.
    pub fn any_nan(&mut self) {
        if let Some(form) = self.list.last_mut() {
            form.any_nan = true;
        }
    }

    /// An approximation: as [`op`](Forms::op), within a bound.
    pub fn approximation(&mut self, instruction: &str, ty: &str, count: usize, bound: Bound) {
        self.op(instruction, ty, &vec![ty; count]);
        if let Some(form) = self.list.last_mut() {
            form.bound = Some(bound);
        }
    }
}
