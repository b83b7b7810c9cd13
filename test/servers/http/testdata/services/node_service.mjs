// A service of Node as a user writes it: node node_service.mjs 127.0.0.1:9000
import http from "node:http";
import zlib from "node:zlib";

let votes = 0;

const routes = {
  "POST /votes"(req, res) { // as the routers of several frameworks do
    res.writeHead(308, { Location: new URL("/votes/", `http://${req.headers.host}`).href }).end();
  },
  "POST /votes/"(req, res) {
    votes++;
    const at = new URL(`/votes/${votes}`, `http://${req.headers.host}`);
    res.writeHead(201, { "Content-Type": "application/json", Location: at.href, "Set-Cookie": `session=ann; Domain=${at.hostname}; Path=/` });
    res.end(JSON.stringify({ votes }));
  },
  "GET /count"(req, res) { res.end(String(votes)); },
  "POST /stream"(req, res, body) {
    for (let i = 0; i < 3; i++) res.write(`part ${i} of ${body.length}\n`);
    res.end();
  },
  "POST /empty"(req, res) { res.writeHead(204).end(); },
  "POST /upload"(req, res, body) { res.end(JSON.stringify({ bytes: body.length })); },
  "GET /page"(req, res) {
    if (req.headers["if-none-match"] === '"one"') return res.writeHead(304, { ETag: '"one"' }).end();
    const page = Buffer.from("page ".repeat(100));
    if (/\bgzip\b/.test(req.headers["accept-encoding"])) {
      res.writeHead(200, { "Content-Type": "text/plain", ETag: '"one"', "Content-Encoding": "gzip", Vary: "Accept-Encoding" });
      return res.end(zlib.gzipSync(page));
    }
    res.writeHead(200, { "Content-Type": "text/plain", ETag: '"one"', "Content-Length": page.length });
    res.end(page);
  },
};

const server = http.createServer(async (req, res) => {
  const parts = [];
  for await (const part of req) parts.push(part);
  const method = req.method === "HEAD" ? "GET" : req.method;
  const route = routes[`${method} ${req.url}`];
  if (!route) return res.writeHead(404).end();
  route(req, res, Buffer.concat(parts));
});
const [host, port] = process.argv[2].split(":");
server.listen(Number(port), host);
