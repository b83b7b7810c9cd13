-- KEYS: record. ARGV: owner, fence8, state, retention (empty: the record's), retention8, flags of the answer, codec to digest, body.
if not mine(ARGV[1], ARGV[2]) then return {LOST, NOW, ''} end
if cur.state == COMPLETED or cur.state == FAILED then return told(FINISHED) end
if cur.state ~= RUNNING then return {LOST, NOW, ''} end
local r = keep({state = tonumber(ARGV[3]), lease = 0, print = cur.print, bind = cur.bind, cause = '', lasterror = cur.lasterror})
r.flags = flag(flag(flag(cur.flags, F_KEPT, false), F_NO_BODY, false), F_DIGEST, false) + tonumber(ARGV[6])
local retention = cur.retention
if ARGV[4] ~= '' then retention, r.retention8 = tonumber(ARGV[4]), ARGV[5] end
r.expires = after(now, retention)
local head = pack(r, ARGV[7])
put(head .. ARGV[8], r.expires)
return {DONE, NOW, head} -- the caller has the body
