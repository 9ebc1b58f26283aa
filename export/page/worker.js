// Runs networks, one image at a time: {id, file, shape, pixels} in, {id, logits, scaleLogits} out.
import * as ort from "./ort/ort.js";

const here = (path) => new URL(path, import.meta.url).href;
ort.env.wasm.wasmPaths = { wasm: here("ort/ort.wasm") };
ort.env.wasm.numThreads = 1; // more need headers that a plain web server does not send
ort.env.logLevel = "error";

const sessions = new Map();

async function load(file) {
  const response = await fetch(here(file));
  if (!response.ok) throw new Error(`${file}: expected a network, received HTTP ${response.status}.`);
  const content = new Uint8Array(await response.arrayBuffer());
  // nothing to optimise: our export folds what can be folded, and trying takes half a second
  const options = { executionProviders: ["wasm"], graphOptimizationLevel: "disabled" };
  return ort.InferenceSession.create(content, options);
}

async function run({ file, shape, pixels }) {
  if (!sessions.has(file)) sessions.set(file, await load(file));
  const image = new ort.Tensor("float32", pixels, shape);
  const start = performance.now();
  const outputs = await sessions.get(file).run({ image }, ["logits", "scale_logits"]);
  const milliseconds = performance.now() - start;
  const { logits, scale_logits } = outputs;
  return { logits: logits.data, scaleLogits: scale_logits.data, milliseconds };
}

onmessage = async ({ data }) => {
  try {
    postMessage({ id: data.id, ...(await run(data)) });
  } catch (error) {
    postMessage({ id: data.id, error: error.message ?? String(error) });
  }
};
