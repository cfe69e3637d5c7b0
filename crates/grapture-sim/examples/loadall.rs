#![allow(missing_docs)]
fn main(){ for p in std::env::args().skip(1){ let t=std::fs::read_to_string(&p).unwrap(); let s=std::time::Instant::now(); match grapture_sim::ptx::Module::compile(&t){Ok(m)=>println!("{p}: {} kernels {:?}",m.kernels().len(),s.elapsed()),Err(e)=>println!("{p}: {e}")}}}
