-- KEYS: record. ARGV: fence8 and owner, lease.
if not mine(ARGV[1]) or cur.state ~= RUNNING or abandoned() then return say(LOST, '') end
local r = keep({state = RUNNING, flags = cur.flags, print = cur.print, bind = cur.bind, cause = cur.cause, lasterror = cur.lasterror})
r.lease = now + tonumber(ARGV[2])
r.expires = cur.reexecute and after(r.lease, cur.retention) or 0
put(pack(r, string.sub(cur.raw, cur.answer)), r.expires)
return say(DONE, '')
