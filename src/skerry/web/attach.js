// Images to send: chosen, pasted or dropped, shown before they go.

import { byId, make } from "./dom.js";
import { toast } from "./toast.js";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 8;
const MAX_BYTES = 5 * 1024 * 1024; // of one image; what the large services take
const TOGETHER_BYTES = 18 * 1024 * 1024; // of a message's, where the gateway does not say

/** The images that go with the next message. `changed()` is called when they do. */
export class Attachments {
  #images = [];
  #limits = { bytes: MAX_BYTES, total: TOGETHER_BYTES };
  #on = false;

  constructor(changed) {
    this.changed = changed;
    byId("attach").addEventListener("click", () => byId("files").click());
    byId("files").addEventListener("change", ({ target }) => {
      this.add([...target.files]);
      target.value = "";
    });
    byId("message").addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files];
      const isText = event.clipboardData.types.includes("text/plain");
      if (files.length === 0 || (!this.#on && isText)) return;
      event.preventDefault();
      this.add(files);
    });
    const chat = byId("chat");
    chat.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      chat.classList.toggle("dropping", this.#on);
    });
    chat.addEventListener("dragleave", (event) => {
      if (!chat.contains(event.relatedTarget)) chat.classList.remove("dropping");
    });
    chat.addEventListener("drop", (event) => {
      chat.classList.remove("dropping");
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault(); // the browser would leave the page for the file
      this.add([...event.dataTransfer.files]);
    });
  }

  /** Offer it where the model sees images; `policy` is what the gateway says of its limits. */
  allow(on, policy) {
    this.#on = on;
    byId("attach").hidden = !on;
    const { maxBytes = TOGETHER_BYTES, maxImageBytes = MAX_BYTES } = policy?.attachments ?? {};
    this.#limits = { bytes: Math.min(maxImageBytes, MAX_BYTES), total: maxBytes };
  }

  /** The images, as a message has them. */
  get images() {
    return this.#images.map(({ mimeType, fileName, content }) => ({ mimeType, fileName, content }));
  }

  /** Replace the images of the next message. */
  become(images) {
    this.#images = images;
    this.#draw();
  }

  /** Add files; a toast gives the reason for each that is refused. */
  async add(files) {
    for (const file of files) {
      const problem = this.#problem(file);
      if (problem) toast(problem);
      else this.#images.push(await read(file));
    }
    this.#draw();
  }

  #problem({ type, size, name }) {
    if (!this.#on) return `${name} was not attached: the model of this conversation reads no images.`;
    const { bytes, total } = this.#limits;
    const attached = this.#images.reduce((sum, image) => sum + image.content.length * 0.75, 0);
    if (!TYPES.includes(type)) return `${name} was not attached: only PNG, JPEG, GIF and WebP images can be sent.`;
    if (size > bytes) return `${name} was not attached: it is larger than ${Math.floor(bytes / 1024 / 1024)} MB.`;
    if (this.#images.length >= MOST) return `${name} was not attached: a message has at most ${MOST} images.`;
    return attached + size > total ? `${name} was not attached: the images are too large together.` : "";
  }

  #draw() {
    const list = byId("attached");
    list.hidden = this.#images.length === 0;
    list.replaceChildren(...this.#images.map((image) => this.#preview(image)));
    this.changed();
  }

  #preview(image) {
    const src = `data:${image.mimeType};base64,${image.content}`;
    const onclick = () => {
      this.become(this.#images.filter((other) => other !== image));
      byId("message").focus();
    };
    const ariaLabel = `Remove ${image.fileName}`;
    return make(
      "li",
      {},
      make("img", { src, alt: image.fileName, title: image.fileName }),
      make("button", { type: "button", className: "remove", ariaLabel, onclick }, "×"),
    );
  }
}

/** Return a file as an image of a message. */
function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      const content = reader.result.slice(reader.result.indexOf(",") + 1);
      resolve({ mimeType: file.type, fileName: file.name || "image", content });
    };
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
