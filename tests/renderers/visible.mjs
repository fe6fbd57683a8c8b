// Reads `[{opening, message, marks}]` from stdin. Renders each message with four Markdown renderers,
// each behind DOMPurify, and prints which marks of the question are not visible:
// `[{opening, renderer, missing, shown}]`.

import createDOMPurify from "dompurify";
import { JSDOM } from "jsdom";
import * as commonmark from "commonmark";
import markdownIt from "markdown-it";
import { marked } from "marked";
import showdown from "showdown";

const window = new JSDOM("<!DOCTYPE html><body></body>").window;
const purify = createDOMPurify(window);

const parser = new commonmark.Parser();
const writer = new commonmark.HtmlRenderer();
const it = markdownIt({ html: true, linkify: true, typographer: true });
const github = new showdown.Converter({ tables: true, ghCodeBlocks: true, strikethrough: true });

const renderers = {
  marked: (text) => marked.parse(text, { gfm: true, breaks: true }),
  commonmark: (text) => writer.render(parser.parse(text)),
  "markdown-it": (text) => it.render(text),
  showdown: (text) => github.makeHtml(text),
};

// What a browser does not show of itself.
const HIDDEN = new Set(["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "TITLE", "HEAD", "IFRAME", "OBJECT",
  "AUDIO", "VIDEO", "CANVAS", "DATALIST", "NOEMBED", "NOFRAMES", "SELECT", "OPTION", "TEXTAREA", "METER",
  "PROGRESS"]);

function isHidden(element) {
  if (HIDDEN.has(element.tagName.toUpperCase()) || element.hasAttribute("hidden")) return true;
  if (element.tagName === "DIALOG" && !element.hasAttribute("open")) return true;
  const parent = element.parentElement;
  if (parent?.tagName === "DETAILS" && !parent.hasAttribute("open") && element.tagName !== "SUMMARY") {
    return true;
  }
  const style = (element.getAttribute("style") ?? "").replaceAll(/\s/g, "").toLowerCase();
  return /display:none|visibility:hidden|opacity:0|font-size:0|height:0|width:0|color:(transparent|white)|position:(absolute|fixed)|clip/.test(style);
}

function visibleText(node) {
  if (node.nodeType === 3) return node.data;
  if (node.nodeType !== 1) return "";
  if (isHidden(node)) return " ";
  // A text of a closed `details` has no element of its own.
  const isClosed = node.tagName === "DETAILS" && !node.hasAttribute("open");
  const children = [...node.childNodes].filter((child) => !isClosed || child.nodeType === 1);
  return children.map(visibleText).join("");
}

const collapsed = (text) => text.replaceAll(/\s+/g, " ");

let input = "";
for await (const chunk of process.stdin) input += chunk;
const failures = [];
for (const { opening, message, marks } of JSON.parse(input)) {
  for (const [renderer, render] of Object.entries(renderers)) {
    const body = window.document.createElement("div");
    body.innerHTML = purify.sanitize(render(message));
    const shown = collapsed(visibleText(body));
    const missing = marks.filter((mark) => !shown.includes(mark));
    if (missing.length > 0) failures.push({ opening, renderer, missing, shown: shown.slice(-400) });
  }
}
console.log(JSON.stringify(failures));
