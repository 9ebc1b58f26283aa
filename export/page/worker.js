// Runs networks, one image at a time: {id, file, shape, pixels, webgpu} in, {id, logits, scaleLogits,
// milliseconds, device, trial} out. With `webgpu`, every network is tried on the GPU after its first
// answer, and stays there if it agrees with wasm and is faster.
import * as wasm from "./ort/ort.js";

const TOLERANCE = 1e-3; // of the largest logit, or of 1

const here = (path) => new URL(path, import.meta.url).href;

function configure(ort, file) {
  ort.env.wasm.wasmPaths = { wasm: here(file) };
  ort.env.wasm.numThreads = 1; // more need headers that a plain web server does not send
  ort.env.logLevel = "error";
  return ort;
}
configure(wasm, "ort/ort.wasm");

async function create(ort, device, content) {
  // nothing to optimise: our export folds what can be folded, and trying takes half a second
  const options = { executionProviders: [device], graphOptimizationLevel: "disabled" };
  return { ort, device, content, session: await ort.InferenceSession.create(content, options) };
}

const networks = new Map();

async function load(file) {
  const response = await fetch(here(file));
  if (!response.ok) throw new Error(`${file}: expected a network, received HTTP ${response.status}.`);
  return create(wasm, "wasm", new Uint8Array(await response.arrayBuffer()));
}

async function run({ ort, device, session, trial }, { shape, pixels }) {
  const image = new ort.Tensor("float32", pixels, shape);
  const start = performance.now();
  const outputs = await session.run({ image }, ["logits", "scale_logits"]);
  const milliseconds = performance.now() - start;
  const [logits, scaleLogits] = [outputs.logits.data, outputs.scale_logits.data];
  return { logits, scaleLogits, milliseconds, device, trial };
}

// === WebGPU ===

let gpu = null; // onnxruntime for WebGPU, or undefined where there is none; a promise

async function findGpu() {
  if (!(await navigator.gpu?.requestAdapter())) return undefined;
  return configure(await import("./ort/webgpu.js"), "ort/webgpu.wasm");
}

async function tryGpu(network, question) {
  network.trial = { device: "none" };
  try {
    gpu ??= findGpu();
    const ort = await gpu;
    if (!ort) return;
    const candidate = await create(ort, "webgpu", network.content);
    await run(candidate, question); // compiles its shaders
    const [expected, found] = [await run(network, question), await run(candidate, question)];
    const deviation = deviationOf(found.logits, expected.logits);
    network.trial = { device: "webgpu", deviation, milliseconds: found.milliseconds };
    if (deviation <= TOLERANCE && found.milliseconds < expected.milliseconds) {
      Object.assign(network, candidate);
    }
  } catch (error) {
    network.trial = { device: "webgpu", error: error.message ?? String(error) };
  }
}

function deviationOf(found, expected) {
  const largest = Math.max(1, ...expected.map(Math.abs));
  return Math.max(...found.map((x, k) => Math.abs(x - expected[k]))) / largest;
}

// === Messages ===

async function answer({ id, webgpu, ...question }) {
  try {
    const { file } = question;
    if (!networks.has(file)) networks.set(file, await load(file));
    const network = networks.get(file);
    postMessage({ id, ...(await run(network, question)) });
    if (webgpu && !network.trial) await tryGpu(network, question);
  } catch (error) {
    postMessage({ id, error: error.message ?? String(error) });
  }
}

let last = Promise.resolve();
onmessage = ({ data }) => {
  last = last.then(() => answer(data));
};
