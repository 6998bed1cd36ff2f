//! experiment
use super::*;
use dyad_index::search::*; use dyad_index::Scored;
struct R(Vec<f32>, usize);
impl VectorRows for R { fn dim(&self)->usize{self.1} fn len(&self)->usize{self.0.len()/self.1} fn row(&self,n:u32)->&[f32]{ &self.0[n as usize*self.1..(n as usize+1)*self.1] } }
fn f16(h: u16) -> f32 { let s = ((h>>15) as u32)<<31; let e = ((h>>10)&31) as i32; let m = (h&1023) as u32; if e==0 { let v = m as f32 * 2f32.powi(-24); if s!=0 {-v} else {v} } else { f32::from_bits(s | (((e-15+127) as u32)<<23) | (m<<13)) } }
#[test] fn experiment() {
  let n: usize = std::env::var("X_N").unwrap().parse().unwrap();
  let d = std::env::var("DYAD_DATA").unwrap();
  let raw = std::fs::read(format!("{d}/minilm-vectors/base.f16.npy")).unwrap(); let raw=&raw[128..];
  let mut v: Vec<f32> = raw.chunks_exact(2).take(n*384).map(|c| f16(u16::from_le_bytes([c[0],c[1]]))).collect();
  for r in v.chunks_mut(384) { let s = r.iter().map(|x|x*x).sum::<f32>().sqrt(); r.iter_mut().for_each(|x| *x/=s); }
  let qr = std::fs::read(format!("{d}/minilm-vectors/queries.f32.npy")).unwrap();
  let q: Vec<f32> = qr[128..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
  let mut all = v.clone(); all.extend(&q); let all = R(all, 384); let rows = R(v, 384);
  struct Cut<'a>(&'a R, usize); impl VectorRows for Cut<'_> { fn dim(&self)->usize{384} fn len(&self)->usize{self.1} fn row(&self,n:u32)->&[f32]{self.0.row(n)} }
  let cut = Cut(&all, n);
  let params = BuildParams{m:16,ef_construction:200,seed:0,threads:2};
  let t = std::time::Instant::now();
  let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
  let cancel = AtomicBool::new(false);
  let g = pool.install(|| insert_all(&cut, &params, &crate::job::progress::Silent, &cancel)).unwrap();
  println!("insert {:?}", t.elapsed()); let t = std::time::Instant::now();
  let lists = export(&g, n); println!("export {:?}", t.elapsed());
  let nq = 300;
  let truth: Vec<Vec<Scored>> = (0..nq).into_par_iter().map(|i| flat(&rows, &q[i*384..(i+1)*384], 10)).collect();
  for ef in [16usize,32,64,128,256] { let t = std::time::Instant::now();
    let mut hit=0; for i in 0..nq { let r = g.search(&[(n+i) as u32], 10, ef); hit += r.iter().filter(|x| truth[i].iter().any(|y| y.node as usize==x.d_id)).count(); }
    println!("hnsw_rs ef {ef} recall {:.4} {:?}", hit as f64/(nq*10) as f64, t.elapsed()); }
  for (mode, fill) in [("all",true),("own",true),("exact",true),("all",false),("own",false),("exact",false)] {
    unsafe { std::env::set_var("X_MODE", mode); if fill { std::env::remove_var("X_NOFILL") } else { std::env::set_var("X_NOFILL","1") } }
    let t = std::time::Instant::now(); let fz = pool.install(|| freeze::freeze(&lists, &rows, &params));
    let un = fz.reachable().iter().filter(|x| !**x).count();
    println!("{mode} fill {fill}: freeze {:?} layers {:?} links0 {:.2} unreachable {un}", t.elapsed(), fz.layers.iter().map(|l| (l.nodes.len(), l.links.len())).collect::<Vec<_>>(), fz.layers[0].links.len() as f64/n as f64);
    for ef in [16usize,32,64,128,256] { let t = std::time::Instant::now(); let mut s = Scratch::default(); let mut hit=0; let mut nd=0;
      for i in 0..nq { let r = walk(&rows, &fz, &q[i*384..(i+1)*384], &SearchParams{k:10,ef}, &mut s); nd+=r.distance_computations; hit += r.hits.iter().filter(|x| truth[i].iter().any(|y| y.node==x.node)).count(); }
      println!("  ef {ef} recall {:.4} dist {} {:?}", hit as f64/(nq*10) as f64, nd/nq as u64, t.elapsed()); }
  }
}
