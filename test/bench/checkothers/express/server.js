// The service of checkothers with express-idempotency, set up as its documentation shows.
const express = require('express');
const idempotency = require('express-idempotency');

const callers = new Set(['Bearer token-of-ann', 'Bearer token-of-bob']);
let total = 0;

const app = express();
app.get('/effects', (req, res) => res.json({ total }));
app.use((req, res, next) => {
  if (!callers.has(req.get('authorization'))) {
    return res.status(401).json({ error: 'send your token in Authorization' });
  }
  next();
});
app.use(express.json());
app.post('*', idempotency.idempotency());

function act(req, res) {
  if (idempotency.getSharedIdempotencyService().isHit(req)) {
    return;
  }
  if (!(req.body.amount > 0)) {
    return res.status(400).json({ error: 'the body is not {"amount": n}' });
  }
  const trouble = Number(req.get('x-trouble') || 0);
  if (trouble >= 400 && trouble < 500) {
    return res.status(trouble).json({ error: 'refused' });
  }
  setTimeout(() => {
    if (trouble) {
      return res.status(trouble).json({ error: 'the bank does not answer' });
    }
    total += 1;
    const id = `${req.path.slice(1, 4)}_${total}`;
    res.cookie('basket', id).location(`${req.path}/${id}`).status(201);
    res.json({ id, amount: req.body.amount });
  }, 15);
}
app.post('/payments', act);
app.post('/refunds', act);

const server = app.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
