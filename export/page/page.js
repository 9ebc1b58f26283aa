// The page: an image at a size, what two networks say to it, and which scale channel said it.

const $ = (id) => document.getElementById(id);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const argmax = (values) => values.indexOf(Math.max(...values));
const percent = (p) => `${p > 0.995 && p < 1 ? ">99" : Math.round(100 * p)} %`;
const short = (x) => String(+x.toFixed(2));

// === Resizing, as gdn_keras/datasets/resize.py in its "centred" mode ===
// An image is {height, width, colours, data}: 0…255, colours of a pixel next to each other.

function cubic(x) {
  x = Math.abs(x);
  if (x <= 1) return (1.5 * x - 2.5) * x * x + 1;
  return x <= 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/** For m pixels whose middle is the middle of n: which of the n they read, with which weights. */
function taps(n, m, scale) {
  const stretch = Math.max(1, 1 / scale); // antialiasing: a wider kernel when the image shrinks
  const count = Math.ceil(4 * stretch) + 2;
  return Array.from({ length: m }, (_, k) => {
    const position = (k - (m - 1) / 2) / scale + (n - 1) / 2;
    const first = Math.floor(position - 2 * stretch);
    const indices = Array.from({ length: count }, (_, i) => first + i);
    const weights = indices.map((i) => cubic((position - i) / stretch));
    const total = sum(weights);
    return indices.map((i, j) => {
      const step = (i < 0 ? -1 - i : i) % (2 * n); // reflected at the borders, as often as needed
      return [Math.min(step, 2 * n - 1 - step), weights[j] / total];
    });
  });
}

function resample(image, height, width, scale) {
  const { colours, data } = image;
  const rows = taps(image.height, height, scale);
  const columns = taps(image.width, width, scale);
  const stride = image.width * colours;
  const between = new Float64Array(height * stride);
  rows.forEach((row, y) => {
    for (const [i, weight] of row) {
      if (weight === 0) continue;
      for (let x = 0; x < stride; x++) between[y * stride + x] += weight * data[i * stride + x];
    }
  });
  const result = new Uint8ClampedArray(height * width * colours);
  for (let y = 0; y < height; y++) {
    columns.forEach((column, x) => {
      for (let c = 0; c < colours; c++) {
        let value = 0;
        for (const [i, weight] of column) value += weight * between[y * stride + i * colours + c];
        result[(y * width + x) * colours + c] = Math.floor(Math.min(Math.max(value, 0), 255) + 0.5);
      }
    });
  }
  return { height, width, colours, data: result };
}

/** How many pixels of the canvas show n pixels: the nearest number that leaves an even one. */
function objectSize(n, factor, canvas) {
  const odd = canvas % 2;
  return Math.max(2 * Math.floor((factor * n - odd) / 2 + 0.5) + odd, 2 - odd);
}

/** The image at a size on the family's canvas, as the data set has it. */
export function rescale(image, factor, { canvas, surroundings }) {
  if (surroundings === "mirrored") return resample(image, canvas, canvas, factor);
  const { colours } = image;
  const [height, width] = [image.height, image.width].map((n) => objectSize(n, factor, canvas));
  const { data } = resample(image, height, width, factor);
  const result = new Uint8ClampedArray(canvas * canvas * colours);
  const [top, left] = [(canvas - height) / 2, (canvas - width) / 2];
  for (let y = 0; y < height; y++) {
    const row = data.subarray(y * width * colours, (y + 1) * width * colours);
    result.set(row, ((top + y) * canvas + left) * colours);
  }
  return { height: canvas, width: canvas, colours, data: result };
}

/** A picture of any size as an image of the family: its longer side becomes that of the samples. */
export function fit(picture, { side, colours }) {
  const image = colours === 1 ? grey(picture) : picture;
  const scale = side / Math.max(image.height, image.width);
  const [height, width] = [image.height, image.width].map((n) => Math.max(1, Math.round(scale * n)));
  return scale === 1 ? image : resample(image, height, width, scale);
}

function grey({ height, width, data }) {
  const result = new Uint8ClampedArray(height * width);
  for (let i = 0; i < result.length; i++) {
    const [r, g, b] = data.subarray(3 * i, 3 * i + 3);
    result[i] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16; // as Pillow
  }
  return { height, width, colours: 1, data: result };
}

// === Pictures ===

const LARGEST = 1024; // larger pictures are made smaller by the browser first

/** What can be drawn, as an image in colour on black. */
function pixelsOf(source, width, height, left = 0, top = 0) {
  const scale = Math.min(1, LARGEST / Math.max(width, height));
  const [w, h] = [width, height].map((n) => Math.max(1, Math.round(scale * n)));
  const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.fillRect(0, 0, w, h);
  context.drawImage(source, left, top, width, height, 0, 0, w, h);
  const { data } = context.getImageData(0, 0, w, h);
  return { height: h, width: w, colours: 3, data: data.filter((_, i) => i % 4 < 3) };
}

function draw(canvas, { height, width, colours, data }) {
  Object.assign(canvas, { height, width });
  const rgba = new Uint8ClampedArray(4 * height * width).fill(255);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) rgba[4 * i + c] = data[i * colours + (c % colours)];
  }
  canvas.getContext("2d").putImageData(new ImageData(rgba, width, height), 0, 0);
}

// === Networks ===

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
worker.onmessage = ({ data: { id, error, ...answer } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error));
  else resolve(answer);
};
worker.onerror = (event) => {
  event.preventDefault();
  const problem = new Error(`The networks cannot run: ${event.message ?? "worker.js did not load"}.`);
  for (const { reject } of waiting.values()) reject(problem);
  waiting.clear();
};

/** The network's answer to an image on its canvas. */
export function run(network, { height, width, colours, data }) {
  const id = crypto.getRandomValues(new Uint32Array(1))[0];
  const { webgpu } = state.page;
  const message = { file: network.file, shape: [1, height, width, colours], webgpu };
  worker.postMessage({ id, ...message, pixels: Float32Array.from(data) });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

export function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = Array.from(logits, (x) => Math.exp(x - largest));
  const total = sum(powers);
  return powers.map((x) => x / total);
}

/** Shares of the scale channels in the output of a class, as gdn_keras.explain.scale_shares. */
export function scaleShares(outputs, pooling) {
  if (pooling === "logsumexp") return softmax(outputs);
  const largest = Math.max(...outputs);
  let parts = outputs.map((x) => Math.max(x, 0));
  if (pooling === "max") parts = outputs.map((x) => Number(x === largest));
  if (sum(parts) === 0) parts = parts.map(() => 1);
  return parts.map((x) => x / sum(parts));
}

/** Probabilities and, of the best class, the shares of the scale channels. */
function read(network, { logits, scaleLogits }) {
  const probabilities = softmax(logits);
  const best = argmax(probabilities);
  const classes = logits.length;
  const outputs = network.sigmas.map((_, k) => scaleLogits[k * classes + best]);
  const shares = scaleShares(outputs, network.pooling);
  return { probabilities, best, shares, channel: argmax(shares) };
}

// === State ===

export const state = {
  page: null, // page.json
  family: null,
  image: null, // as small as the samples
  truth: null, // index of the right class, null if nobody has said
  own: false, // not one of the samples
  step: 0, // the size is 2 ** (step / 4)
  set: 0, // which sample of each class is offered
  answers: new Map(), // by step: {one, several}
  playing: false,
  busy: false,
};
const factorOf = (step) => 2 ** (step / 4);

/** The networks to compare; without one of a single channel, a channel of the other stands in. */
function contenders() {
  const { networks } = state.family;
  const several = networks.find((n) => n.sigmas.length > 1) ?? networks[0];
  return { one: networks.find((n) => n.sigmas.length === 1 && n !== several), several };
}

const nearestToOne = ({ sigmas }) => argmax(sigmas.map((sigma) => -Math.abs(Math.log(sigma))));

/** Never two at once, and the last wish wins: what was asked meanwhile and is outdated is left out. */
async function update() {
  if (state.busy) return;
  state.busy = true;
  try {
    while (!state.answers.has(state.step)) {
      const { image, family, step, answers } = state;
      const { one, several } = contenders();
      const pixels = rescale(image, factorOf(step), family);
      const answer = {};
      if (one) {
        answer.one = read(one, await run(one, pixels));
        if (answers === state.answers && !answers.size) showAnswer("one", answer.one);
      }
      const output = await run(several, pixels);
      answer.several = read(several, output);
      if (!one) {
        const [k, classes] = [nearestToOne(several), family.classes.length];
        const logits = output.scaleLogits.slice(k * classes, (k + 1) * classes);
        answer.one = read({ sigmas: [1], pooling: "max" }, { logits, scaleLogits: logits });
      }
      answers.set(step, answer);
      if (answers !== state.answers) continue; // of an older image
      if (state.truth === null) setTruth(answer.several.best);
      showSpeed(several, output);
      showAll(step);
    }
    showAll(state.step);
    speak();
  } catch (error) {
    fail(error.message);
    stop();
  } finally {
    state.busy = false;
  }
}

function fail(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
}

// === What is shown ===

function showPicture() {
  const factor = factorOf(state.step);
  const pixels = rescale(state.image, factor, state.family);
  draw($("picture"), pixels);
  const what = state.own ? "your image" : state.family.classes[state.truth];
  $("picture").setAttribute("aria-label", `${what} at ${short(factor)} times its size`);
  $("size-text").value = `× ${factor.toFixed(2)}`;
  $("size").value = state.step;
  $("size").setAttribute("aria-valuetext", `${short(factor)} times the size`);
  for (const mark of $("marks").children) {
    mark.classList.toggle("here", Number(mark.dataset.step) === state.step);
  }
}

function showAll(step) {
  const answer = state.answers.get(step);
  showAnswer("one", answer.one);
  showAnswer("several", answer.several);
  showChannels(answer.several);
  showCurve();
}

function showAnswer(which, { probabilities, best }) {
  const card = $(which);
  const right = state.truth === best;
  const [name, note] = card.querySelector(".answer").children;
  name.textContent = state.family.classes[best];
  note.textContent = state.truth === null ? "" : right ? "✓ right" : "✗ wrong";
  card.classList.toggle("wrong", state.truth !== null && !right);
  const rows = card.querySelectorAll(".classes li");
  probabilities.forEach((p, k) => {
    rows[k].style.setProperty("--share", p);
    rows[k].lastElementChild.textContent = percent(p);
    rows[k].classList.toggle("best", k === best);
    rows[k].classList.toggle("truth", k === state.truth);
  });
}

function showChannels({ shares, channel, best }) {
  const { sigmas, pooling } = contenders().several;
  const largest = Math.max(...shares);
  [...$("channels").children].forEach((bar, k) => {
    bar.style.setProperty("--share", shares[k] / largest);
    bar.classList.toggle("best", k === channel);
    bar.firstElementChild.textContent = percent(shares[k]);
  });
  const verb = pooling === "max" ? "decides" : "contributes most to";
  const name = state.family.classes[best];
  $("decides").textContent = `σ₀ = ${short(sigmas[channel])} ${verb} “${name}”`;
}

function showCurve() {
  const count = contenders().several.sigmas.length;
  const lines = [["one", "1 channel"], ["several", `${count} channels`]];
  const steps = [...state.answers.keys()].sort((a, b) => a - b);
  const at = (which, step) => state.answers.get(step)[which].probabilities[state.truth];
  const x = (step) => 44 + ((step + 4) / 8) * 362;
  const y = (p) => 158 - p * 146;
  const parts = [0, 0.5, 1].map(
    (p) => `<line class="grid" x1="44" x2="406" y1="${y(p)}" y2="${y(p)}"/>` +
      `<text x="38" y="${y(p) + 4}" text-anchor="end">${100 * p} %</text>`);
  state.page.size_factors.forEach((factor, n) => {
    if (n % 2) return;
    parts.push(`<text x="${x(n - 4)}" y="178" text-anchor="middle">${factor === 0.5 ? "½" : short(factor)}</text>`);
  });
  parts.push(`<line class="now" x1="${x(state.step)}" x2="${x(state.step)}" y1="8" y2="160"/>`);
  for (const [which] of lines) {
    const points = steps.map((step) => `${x(step).toFixed(1)},${y(at(which, step)).toFixed(1)}`);
    parts.push(`<polyline class="${which}" points="${points.join(" ")}"/>`);
    if (state.answers.has(state.step)) {
      parts.push(`<circle class="${which}" cx="${x(state.step)}" cy="${y(at(which, state.step))}" r="4.5"/>`);
    }
  }
  if (steps.length < 2) parts.push('<text class="hint" x="225" y="90" text-anchor="middle">Play draws the curve</text>');
  $("curve").innerHTML = parts.join("");
  $("legend-several").textContent = lines[1][1];
  $("right-class").textContent = `“${state.family.classes[state.truth]}”`;
  const row = (step) => `<tr><th scope="row">${short(factorOf(step))}</th>` +
    lines.map(([which]) => `<td>${percent(at(which, step))}</td>`).join("") + "</tr>";
  const heads = ["size", ...lines.map(([, title]) => title)];
  $("numbers").innerHTML = `<tr>${heads.map((h) => `<th scope="col">${h}</th>`).join("")}</tr>` +
    steps.map(row).join("");
}

function showSpeed(network, { milliseconds, device }) {
  const where = device === "webgpu" ? " on the GPU" : "";
  $("speed").textContent = `${network.name}: ${Math.round(milliseconds)} ms per image here${where}.`;
}

let speaking;
/** For screen readers, once nothing moves any more. */
function speak() {
  clearTimeout(speaking);
  if (state.playing) return;
  speaking = setTimeout(() => {
    const { one, several } = state.answers.get(state.step) ?? {};
    if (!one) return;
    const say = ({ best, probabilities }) => `${state.family.classes[best]}, ${percent(probabilities[best])}`;
    const size = short(factorOf(state.step));
    $("spoken").textContent = `Size ${size}. One scale channel: ${say(one)}. Several: ${say(several)}. ${$("decides").textContent}.`;
  }, 700);
}

// === What a visitor does ===

function setStep(step) {
  state.step = step;
  showPicture();
  if (state.answers.has(step)) showAll(step);
  return update();
}

function setTruth(index) {
  state.truth = index;
  $("truth").value = index;
}

/** Another image: the answers to the last one are forgotten. */
function setImage(image, { truth = null, own = false }) {
  stop();
  Object.assign(state, { image, own, answers: new Map() });
  $("problem").hidden = true;
  setTruth(truth);
  document.querySelector(".truth").hidden = !own;
  for (const button of $("samples").children) {
    button.setAttribute("aria-pressed", String(!own && Number(button.dataset.truth) === truth));
  }
  showPicture();
  return update();
}

function stop() {
  state.playing = false;
  $("play").textContent = "▶ Play";
}

/** From half to twice the size; then back to where it was. */
async function play() {
  if (state.playing) return stop();
  state.playing = true;
  $("play").textContent = "■ Stop";
  const before = state.step;
  for (let step = -4; step <= 4 && state.playing; step += 0.5) {
    const since = performance.now();
    await setStep(step);
    while (state.playing && !state.answers.has(step)) await pause(10); // an older wish was running
    await pause(Math.max(0, 120 - (performance.now() - since)));
  }
  if (!state.playing) return;
  stop();
  setStep(before);
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A file, or what was dropped or pasted. */
async function open(blob) {
  try {
    const bitmap = await createImageBitmap(blob);
    await setImage(fit(pixelsOf(bitmap, bitmap.width, bitmap.height), state.family), { own: true });
  } catch {
    const name = blob.name ?? "What was pasted";
    const type = blob.type || "no known type";
    fail(`${name} is not an image that this browser can read. Expected: PNG, JPEG, WebP or the like. Received: ${type}, ${blob.size} bytes.`);
  }
}

/** Of a drop or paste: the file in it, if there is one. */
function take(transfer) {
  const [file] = transfer?.files ?? [];
  if (file) open(file);
  else fail("Expected: an image. Received: something without a file in it.");
}

function chooseSample(index) {
  const { family } = state;
  const truth = family.samples.labels[index];
  return setImage(family.images[index], { truth });
}

function offerSamples() {
  const { family, set } = state;
  const buttons = family.classes.map((name, k) => {
    const indices = family.samples.labels.flatMap((label, i) => (label === k ? [i] : []));
    const index = indices[set % indices.length];
    const button = document.createElement("button");
    Object.assign(button, { type: "button", title: name });
    button.dataset.truth = k;
    button.setAttribute("aria-label", name);
    button.append(document.createElement("canvas"));
    draw(button.firstChild, family.images[index]);
    button.onclick = () => chooseSample(index);
    return button;
  });
  $("samples").replaceChildren(...buttons);
}

async function loadSamples(family) {
  const { side, samples } = family;
  const response = await fetch(samples.file);
  if (!response.ok) throw new Error(`${samples.file}: expected the samples, received HTTP ${response.status}.`);
  const sheet = await createImageBitmap(await response.blob(), { colorSpaceConversion: "none" });
  family.images = samples.labels.map((_, i) =>
    fit(pixelsOf(sheet, side, side, (i % 10) * side, Math.floor(i / 10) * side), family));
}

async function setFamily(family) {
  stop();
  if (!family.images) await loadSamples(family);
  Object.assign(state, { family, set: family.samples.first % 10, step: 0 });
  const { one, several } = contenders();
  $("several-title").textContent = `${several.sigmas.length} scale channels`;
  $("several").querySelector(".name").textContent = several.name;
  const alone = short(several.sigmas[nearestToOne(several)]);
  $("one").querySelector(".name").textContent = one?.name ?? `${several.name}, σ₀ = ${alone} alone`;
  for (const list of document.querySelectorAll(".classes")) {
    list.innerHTML = family.classes.map((name) => `<li><span>${name}</span><b></b></li>`).join("");
  }
  $("truth").innerHTML = family.classes.map((name, k) => `<option value="${k}">${name}</option>`).join("");
  $("channels").innerHTML = several.sigmas.map((s) => `<li><b></b><span>${short(s)}</span></li>`).join("");
  $("doodle").hidden = family.surroundings !== "black";
  offerSamples();
  return chooseSample(family.samples.first);
}

// === Doodles and the camera ===

function prepareDoodle() {
  const paper = $("paper");
  const pen = paper.getContext("2d", { willReadFrequently: true });
  const wipe = () => pen.fillRect(0, 0, paper.width, paper.height);
  const place = (event) => {
    const box = paper.getBoundingClientRect();
    const scale = paper.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  wipe();
  Object.assign(pen, { strokeStyle: "#ddd", lineCap: "round", lineJoin: "round" });
  paper.onpointerdown = (event) => {
    paper.setPointerCapture(event.pointerId);
    pen.lineWidth = Number($("pen").value);
    pen.beginPath();
    pen.moveTo(...place(event));
    pen.lineTo(...place(event));
    pen.stroke();
  };
  paper.onpointermove = (event) => {
    if (!paper.hasPointerCapture(event.pointerId)) return;
    pen.lineTo(...place(event));
    pen.stroke();
  };
  $("doodle").onclick = () => $("drawing").showModal();
  $("wipe").onclick = wipe;
  $("drawn").onclick = () => {
    $("drawing").close();
    setImage(fit(pixelsOf(paper, paper.width, paper.height), state.family), { own: true });
  };
}

function prepareCamera() {
  const [dialog, video] = [$("viewfinder"), $("video")];
  $("camera").onclick = async () => {
    try {
      if (!navigator.mediaDevices) throw new Error("browsers give it to https:// and localhost only");
      video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      await video.play();
      dialog.showModal();
    } catch (error) {
      fail(`Expected: a camera that this page may use. Received: ${error.message}.`);
    }
  };
  $("shoot").onclick = () => {
    const side = Math.min(video.videoWidth, video.videoHeight);
    const [left, top] = [(video.videoWidth - side) / 2, (video.videoHeight - side) / 2];
    const picture = pixelsOf(video, side, side, left, top);
    dialog.close();
    setImage(fit(picture, state.family), { own: true });
  };
  $("cancel").onclick = () => dialog.close();
  dialog.onclose = () => video.srcObject?.getTracks().forEach((track) => track.stop());
}

// === Start ===

function prepare() {
  $("size").oninput = (event) => {
    stop();
    setStep(Number(event.target.value));
  };
  $("size").disabled = false;
  $("play").onclick = play;
  $("others").onclick = () => {
    state.set++;
    offerSamples();
    const pressed = $("samples").children[state.truth ?? 0];
    pressed.click();
  };
  $("file").onchange = (event) => {
    if (event.target.files[0]) open(event.target.files[0]);
    event.target.value = "";
  };
  $("truth").onchange = (event) => {
    setTruth(Number(event.target.value));
    if (state.answers.has(state.step)) showAll(state.step);
  };
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    take(event.dataTransfer);
  });
  document.addEventListener("paste", (event) => take(event.clipboardData));
  $("marks").innerHTML = state.page.size_factors.map((factor, n) =>
    `<span data-step="${n - 4}">${factor === 0.5 ? "½" : short(factor)}</span>`).join("");
  $("families").append(...state.page.families.map((family, k) => {
    const label = document.createElement("label");
    label.innerHTML = `<input type="radio" name="family" ${k ? "" : "checked"}><span>${family.title}</span>`;
    label.firstChild.onchange = () => setFamily(family).catch((error) => fail(error.message));
    return label;
  }));
  $("families").hidden = state.page.families.length < 2;
  prepareDoodle();
  prepareCamera();
}

try {
  const response = await fetch("page.json");
  if (!response.ok) throw new Error(`page.json: expected the page's networks, received HTTP ${response.status}.`);
  state.page = await response.json();
  prepare();
  await setFamily(state.page.families[0]);
} catch (error) {
  fail(error.message);
}
