// The texts in English, besides those of en-causes.js: key|text. {name} is a value. zh.js has the same keys.
export default `
nav.doubts|In doubt
nav.search|Search
nav.traffic|Traffic
nav.messages|Dead letters
nav.locks|Locks
nav.quotas|Quotas
nav.workers|ID workers
nav.audit|Audit log
nav.record|Record
views|Views
menu|Menu
count|Waiting for a person: {n}
count.unknown|The number is unknown
skip|Skip to the content
again|Try again
loading|Loading …
waiting|Waiting for the answer …
reading|Reading records
reload.lose|What you have written here is lost if the page loads again.
retries|This page tries again every five seconds.
close|Close
more|More
stop|Stop
any|any
all|all
empty|(empty)
comma|, 
quick|Search for a hash, a key, a caller or an operation
quick.hint|Search  /
stale|What is shown below is from {at}.
keys|Keyboard
key.search|Search
key.move|Next and previous row
key.open|Open the row
key.back|Leave a field or dialog; back from a record
key.resolve|Go to the form that resolves
key.reload|Load again
who|: {roles}
who.loopback|this machine
who.none|Give a token
token|Token
token.title|Who you are
token.you|You are {name}. What you may do here:
token.none|The server does not know you. Give the token that you were given for this console.
token.hint|It begins with rsadmin_. It stays in this browser tab until you close the tab.
token.use|Use this token
token.forget|Forget the token
role.view|view
role.view.what|See records, dead letters, locks and quotas, without keys, tenants and answers.
role.reveal|reveal
role.reveal.what|See keys, tenants, answers, errors and names of locks, with a reason.
role.resolve|resolve
role.resolve.what|Resolve records, redrive and discard messages, with a reason.
role.missing|Your token does not have this role. Ask the person who manages the tokens for it.
me.no-audit|This server has no audit log, so nothing can be changed or revealed here.
me.lacks|You may not do this here: it needs the role {role}. Give a token that has it, at the top of the page.
reason|Reason
reason.hint|For those who read the audit log later.
doubts.lead|Work that may have taken effect, and whose outcome is unknown. It is not run again until a person finds out what happened.
doubts.none|✓ Nothing is in doubt.
doubts.counts|Counts
doubts.at-least|{n} or more
doubts.oldest|in doubt. The oldest: {span}
doubts.changed|In doubt now: {n}. What is shown below is older.
doubts.again|Load again
doubts.list|All that is in doubt
by-cause|By cause
by-age|By age
under|under {span}
over|over {span}
do-now|Now:
changed-ago|changed {span} ago
doubt-for|in doubt for {span}
attempt-n|attempt {n}
no-operation|(no operation)
list.scans|The store has no index for this list, so every record is read: {n} so far.
list.unreadable|Records that this version cannot read: {n}.
list.answers|Stored answers that were searched: {n}.
list.sealed|Not searched, since they are sealed and this server has no key for them: {n}.
list.going|Shown: {n}. Reading …
list.stopped|Shown: {n}. Stopped before the end.
list.more|Shown: {n}. There may be more.
list.all|Shown: {n}. That is all.
list.none|No record.
search.hash|By hash
search.hash.hint|16 hex digits, as logs and lists show them. The search reads the records one after the other.
search.hash.go|Search
search.key|By the whole key
search.key.hint|For one who knows the operation too: found at once, without reading other records. The key is not written to any log.
search.key.go|Find
search.list|Find a request
search.list.hint|In doubt and in progress have an index. For other states the records are read one after the other.
search.list.go|Search
search.id|Key
search.id.hint|The Idempotency-Key of the request, often the number of the order, such as order-17.
search.operation.hint|For example POST /payments. May be empty, as every field here.
search.more|More fields …
search.tenant.hint|It is sent in the body of a request, so it stands in no address and no log.
search.again|What this search was for does not stand in the address. Fill in the form again.
searched|Found by
search.user.hint|Who sent it, for example ann. Other forms: bearer:TOKEN, cookie:VALUE, or jwt: with iss, a vertical bar and sub.
search.time.hint|When the key was first used, in the time of this browser.
search.answer|By what the answer says …
search.location|Location of the answer
search.location.hint|For example /payments/17. Only which records have it is shown, nothing of the answers.
search.text|Text in the answer
search.text.hint|For example the id of a payment; 4 characters or more.
search.read|{n} records read …
search.found|Found after {n} records.
search.none|None of the {n} records has this hash. It may have expired, or belong to another namespace, or this server has another secret than the service.
search.stopped|Stopped after {n} records.
found|Found
hash|Hash
operation|Operation
id|Key (id)
tenant|Tenant
user|Caller
layer|Layer
namespace|Namespace
state|State
older|Not changed for (seconds)
since|From
until|Before
state.in-doubt|in doubt
state.in-progress|in progress
state.completed|completed
state.failed|failed
state.released|released
state.issued|issued
state.none|none
state.gone|expired
state.unknown|unknown
state.open|opened
layer.gw|gateway
layer.http|HTTP handler
layer.fn|function
layer.tx|transaction
layer.mq|message
layer.rpc|RPC
layer.token|one-time token
layer.ids|ID worker
layer.nginx|nginx
explain|What to do
what|What is it?
why|Why?
do|What do I do now?
also|Note
also.earlier|Earlier attempts may have taken effect too: look for each of them.
what.in-doubt|The work was started and may have taken effect. Its outcome is unknown.
what.in-progress|An attempt holds the record and is at work. Duplicates wait, or learn that it is running.
what.completed|The work took effect. Duplicates get its answer.
what.failed|The work refused for good. Duplicates get the refusal.
what.released|Certainly nothing happened. The next call runs the work.
what.issued|The server issued this token. It was not used yet.
what.refuse|Duplicates are refused until you resolve it.
what.reexecute|Its policy is reexecute: the next call runs the work again.
do.reexecute|Nothing. Resolve it only if the work must not run again.
known|What is known
policy|Policy in doubt
policy.refuse|refuse: at most once
policy.reexecute|reexecute: at least once
attempt|Attempt
fence|Fence
lease|Lease
lease.left|{span} left
lease.none|none: no one holds it
lease.ended|lease ended
created|Created
updated|Changed
expires|Expires
expires.never|never, until it is resolved
timeline|Attempts
timeline.cut|There were earlier attempts than these.
timeline.may|may have taken effect
steps|Steps
step.done|done
step.open|begun, effect unknown
input-kept|The input is kept: a worker can finish the work.
answer|Answer
answer.kept|Duplicates get this answer.
answer.not-kept|The answer is not kept: duplicates learn the outcome only.
status|Status
codec|Encoding
size|Size
bytes|{n} bytes
hidden|What is hidden
hidden.what|The key, the tenant, the answer and the last error belong to the service's customers.
reveal|Reveal
reveal.hint|It is written to the audit log that you looked, and why.
last-error|Last error
header|Header
body|Body
binary|(not text)
resolve|Resolve
resolve.go|Resolve
resolve.jump|Resolve …
resolve.fence|You resolve the record with the fence
resolve.fence.why|If it has changed since, nothing happens.
resolve.found|What did you find out?
resolve.reason|How do you know? For example: payment 4711 is in the bank's list.
resolve.live|An attempt holds the record and may still act. Resolve all the same …
resolve.no-answer|This record is not of an HTTP request, so its answer cannot be given here; the program can, with Engine.Resolve.
outcome.answer|Done, and I know the answer
outcome.answer.hint|Duplicates get the answer that you give.
outcome.done|Done
outcome.done.hint|Duplicates learn that it was done, and get no answer.
outcome.failed|Failed for good
outcome.failed.hint|Nothing was done, and nothing will be: duplicates get the refusal.
outcome.not-done|Not done
outcome.not-done.hint|The next call runs the work. Choose this only if you are certain: otherwise it may happen twice.
force|The holder is certainly dead
force.hint|It may still act otherwise, and its effect and your outcome would differ.
content-type|Content-Type
location|Location
location.hint|Often the address of what was made. May be empty.
body.hint|Byte for byte what the first caller would have got.
failure|The refusal that duplicates get
failure.hint|For example: the card was declined.
resolved|✓ Resolved
resolved.answer|From now on, duplicates get the answer that you gave.
resolved.done|From now on, duplicates learn that it was done.
resolved.failed|From now on, duplicates get the refusal.
resolved.not-done|The next call runs the work.
resolved.next|All that is in doubt
see-audit|Audit log
changed.look|Look at it again
traffic.lead|Requests of this gateway. The page asks again every five seconds.
traffic.none|This server is not a gateway, so it has no traffic to show.
traffic.hour|The last hour, by minute
traffic.soon|The first counts come ten seconds after the start.
chart|Most requests in a minute: {n}, at {at}. From {from} to {to}.
chart.unit|Requests per minute
chart.time|Time, by the clock of this browser.
chart.table|The chart as a table
chart.newest|Requests per minute, the newest first
chart.minute|Minute from
routes|Routes, since the start
routes.none|No request yet.
per-second|{n} per second
kind.done|done or replayed
kind.refused|refused or not done
kind.doubt|in doubt
traffic.executed|executed
traffic.replayed|replayed
traffic.in-progress|in progress
traffic.in-doubt|duplicates of a doubt
traffic.doubt|new doubts
traffic.late|late
traffic.released|released
traffic.unavailable|store unavailable
traffic.mismatch|another payload
traffic.duplicate|duplicate
traffic.refused|refused
traffic.issued|token issued
traffic.not-issued|invalid token
traffic.too-many-keys|too many keys
traffic.unguarded|not guarded
messages.lead|Messages that were given up. Redrive sends them again; discard removes them for good.
messages.none|No outbox and no dead-letter queue is configured here. See retrysafe console --outbox and --queue.
outbox|Outbox
outbox.pending|pending
outbox.waiting|of them retried later
outbox.dead|dead
outbox.oldest|The oldest pending message: {span}
outbox.away|The database of this outbox does not answer.
deadletters|Dead letters of
letters.none|✓ No dead letters.
letters.how|Choose messages. Then open Redrive or Discard below the list.
letters.reveal|Reveal ids, errors and bodies …
letters.choose|No message is chosen. Choose messages in the list, or a rule above.
letters.cut|Shown: the first {n}. There may be more.
which|Which messages?
which.chosen|Those that are chosen in the list: {n}
which.all|All
which.rule|{label}: {n}
which.counting|Counting …
which.more|Only the first {n} were counted. Do these first, then count again.
which.until|Messages that were given up after they were counted are not touched.
which.wrong|Type the number {n}.
letters.not-done|Also those in doubt
letters.not-done.hint|Only if you found out that their work was not done: they run again.
letter.tries|tries: {n}
letter.redrives|redriven: {n}
letter.died|given up
letter.record|record: {state}
letter.see-record|See its record
letter.why.tries|tries used up
letter.why.poison|poison
letter.why.refused|refused
letter.why.no-id|no id
letter.why.too-large|too large
letter.why.in-doubt|in doubt
letter.why.mismatch|another payload
letter.why.unreadable|unreadable
redrive|Redrive … (chosen: {n})
redrive.go|Redrive
redrive.what|The chosen messages are sent again. Fix what made them fail first.
redrive.confirm|{n} messages are sent again. Type the number to confirm.
discard|Discard … (chosen: {n})
discard.go|Discard for good
discard.what|The chosen messages are removed and cannot be brought back.
discard.confirm|{n} messages are removed for good. Type the number to confirm.
did.redrive|✓ Redriven: {n}.
did.discard|✓ Discarded: {n}.
did.gone|Taken away, since they were done before: {n}.
did.more|There are more of them.
did.failed|Left where they were: {n}.
locks.lead|Locks that are held now. A lock cannot be taken away here: its holder may still act, and would not know. It is free when its lease ends, unless the holder extends it.
locks.off|This server was not given the locks of a backend. See retrysafe console --locks.
locks.of|Locks of
locks.none|✓ No lock is held.
locks.since|held since
locks.waiting|clients that wait: {n}
locks.all|Locks held: {n}.
locks.more|Shown: {n}. There are more.
quotas.lead|What a tenant uses of its limits. Give the whole name of the tenant. It is sent in the body of a request, so it stands in no address and no log.
quota|Usage of a tenant
quota.go|Look
quota.tenant.hint|As the service names its caller. May be empty.
quota.user.hint|Such as basic:ann or header:ann, in place of the tenant. A gateway that does not verify its callers counts by the whole header: credential:Basic …
quota.uses|In use
quota.keys|Keys that count
quota.bytes|Stored answers
quota.frees|The first key stops to count
quota.none|none counts
quota.rate|Rate of {n} per second
quota.burst|{n} of the burst are taken
quota.idle|all free in {span} if no key comes
quota.no-rate|No rate was used lately: every burst is free.
quota.limits|The limits themselves are in the configuration of the service: live, bytes, and burst of each rate.
workers.lead|A worker number is part of every id. Two processes must never hold the same one at once; the lease makes sure of that.
workers.none|No process holds a worker number.
worker|Worker {n}
worker.free|no one holds it
audit.lead|Every change and every look at what is hidden, the last first. Days are in UTC.
audit.none|No entries on this day.
audit.no-reason|No reason was given.
origin|Name by: {how}
audit.unreadable.not-sealed|This entry was written without sealing. This server reads only what is sealed.
audit.unreadable.sealed|This entry is sealed, and this server does not have its key.
audit.unreadable.damaged|This entry is damaged.
day|Day
day.before|← Day before
day.after|Day after →
action.resolve|resolved
action.reveal|revealed
action.redrive|redrove
action.discard|discarded
action.resume|resumed
action.forget|forgot
action.rewrap|rewrapped
action.replace-secret|replaced the secret
result.done|done
result.begun|no result
result.begun.hint|It was begun, and no result was written: it may have been done or not.
problem.offline|The server does not answer.
problem.offline.do|It may be restarting, or your connection is down. Nothing is lost.
problem.unavailable|The store does not answer.
problem.unavailable.do|While it is away, services that use it refuse new work, and nothing runs twice. The server's log has the error.
problem.unauthenticated|The server does not know who you are.
problem.unauthenticated.do|Give a token. If you have given one, it is wrong or was replaced.
problem.forbidden|You may not do this.
problem.forbidden.do|Your token does not have the role, or not any more. Nothing was done. Ask the person who manages the tokens.
problem.not-found|There is no such record.
problem.not-found.do|It may have expired, or the link is from a server with another secret. Search for it, or list the records again.
problem.changed|The record has changed since you looked at it. Nothing was done.
problem.changed.do|Someone else resolved it, or another attempt has begun. Look at what changed before you go on.
problem.in-progress|An attempt holds the record and may still act. Nothing was done.
problem.in-progress.do|Wait until its lease has ended.
problem.completed|The record is completed: it has its answer, which is never changed.
problem.completed.do|Perhaps someone else has resolved it. The audit log says who.
problem.unconfirmed|It is not known whether the change was made.
problem.unconfirmed.do|No answer confirmed it. Load the page again, and look before you do anything else. The audit log may tell.
problem.no-audit|This server has no audit log.
problem.no-audit.do|So nothing is changed or revealed here.
problem.busy|The server has too many requests at once.
problem.busy.do|Nothing was done. Try again soon.
problem.not-json|The answer is not one of this server.
problem.not-json.do|A proxy before it may have answered, perhaps since your login there has ended. Load the page again.
problem.other-secret|This server has another secret than the one that the namespace was used with.
problem.other-secret.do|So nothing is changed or revealed here. Start this server with the RETRYSAFE_SECRET of that service.
problem.no-quotas|This store does not report what tenants use.
problem.no-list|This backend cannot list its locks.
problem.bad-request|The server does not accept this. Nothing was done.
problem.ambiguous|Several records fit.
problem.cross-origin|The request came from a page of another site. Nothing was done.
problem.other|That did not work.
`;
