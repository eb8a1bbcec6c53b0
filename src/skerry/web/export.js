// A conversation as a Markdown file.

import { make } from "./dom.js";
import { fold } from "./transcript.js";

/** Let the browser save the messages of a transcript under this title. */
export function save(title, messages) {
  const text = `# ${title}\n\n${fold(messages).map(section).join("\n\n")}\n`;
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  make("a", { href: url, download: `${name || "conversation"}.md` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function section({ kind, outcome, at, text, images, tools = [], problem }) {
  const time = at ? `, ${new Date(at).toLocaleString()}` : "";
  const parts = [
    `## ${outcome?.title ?? { person: "You", answer: "Answer", note: "Note" }[kind]}${time}`,
    tools.map(({ name, args }) => `- ${name} \`${JSON.stringify(args ?? {})}\``).join("\n"),
    images.length > 0 ? `(${images.length} images)` : "",
    text,
    problem,
  ];
  return parts.filter(Boolean).join("\n\n");
}
