/* Packed data of a page: base64 of bytes, deflated where they are many. The other side is pipelines/pages/packing.py. */
"use strict";

/** Bytes of base64 text. */
function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

/** Bytes that zlib packed. */
async function inflated(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser is too old for the report: Chrome 80, Firefox 113 or Safari 16.4 and newer show it.");
  }
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The data that the page was made with. */
function pageData() {
  return JSON.parse(document.getElementById("data").textContent);
}
