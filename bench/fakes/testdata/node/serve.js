// Serves a fake over TLS on a free port of loopback, prints the port, and exits at the end of the
// standard input: node serve.js s3rver|dynalite DIRECTORY
// DIRECTORY contains cert.pem and key.pem, and s3rver stores its objects there.
"use strict";
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const [fake, directory] = process.argv.slice(2);
const key = readFileSync(join(directory, "key.pem"));
const cert = readFileSync(join(directory, "cert.pem"));

async function s3rver() {
  const S3rver = require("s3rver");
  const configureBuckets = [{ name: "bucket" }];
  const server = new S3rver({ port: 0, address: "127.0.0.1", silent: true, directory, configureBuckets, key, cert });
  return (await server.run()).port;
}

async function dynalite() {
  const server = require("dynalite")({ ssl: true, key, cert, ca: cert, createTableMs: 0 });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server.address().port;
}

({ s3rver, dynalite })[fake]().then((port) => console.log(port));
process.stdin.on("end", () => process.exit(0)).resume();
