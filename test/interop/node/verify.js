// Checks webhook signatures with the npm package standardwebhooks, as a receiver would. One JSON object per line on
// stdin, {"headers": {...}, "body_base64": "...", "secret": "whsec_..."}; one line on stdout for each: "ok", or
// "fail" and the reason.
"use strict";

const readline = require("node:readline");
const { Webhook } = require("standardwebhooks");

function verdict(line) {
  const { headers, body_base64, secret } = JSON.parse(line);
  try {
    // The body may be any text; what the package makes of JSON is not the question here.
    new Webhook(secret).verify(Buffer.from(body_base64, "base64"), headers, { jsonParse: false });
    return "ok";
  } catch (err) {
    return `fail ${err.name}: ${String(err.message).replace(/\s+/g, " ")}`;
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => console.log(verdict(line)));
