// A service of Express as a user writes it: node express_service.cjs 127.0.0.1:9000
const compression = require("compression");
const express = require("express");

const app = express();
app.use(compression({ threshold: 0 }));
app.use(express.raw({ type: () => true, limit: "10mb" }));

let votes = 0;

// Without strict routing Express answers /votes too.
app.post("/votes/", (req, res) => {
  votes++;
  const at = new URL(`/votes/${votes}`, `${req.protocol}://${req.get("host")}`);
  res.cookie("session", "ann", { domain: at.hostname });
  res.status(201).location(at.href).json({ votes });
});
app.get("/count", (req, res) => res.send(String(votes)));
app.post("/stream", (req, res) => {
  for (let i = 0; i < 3; i++) res.write(`part ${i} of ${req.body.length}\n`);
  res.end();
});
app.post("/empty", (req, res) => res.sendStatus(204));
app.post("/upload", (req, res) => res.json({ bytes: req.body.length }));
app.get("/page", (req, res) => res.type("text").send("page ".repeat(100)));

const [host, port] = process.argv[2].split(":");
app.listen(Number(port), host);
