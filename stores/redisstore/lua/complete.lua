if not mine(mark) then return say(LOST, '') end
if cur.state == COMPLETED or cur.state == FAILED then
  -- WAIT speaks of the writes of its connection: a repeat on another one has to write too, or it would confirm nothing.
  if how % 8 >= 4 then redis.call('SET', KEYS[1], stored, 'KEEPTTL') end
  return told(FINISHED)
end
if cur.state ~= RUNNING then return say(LOST, '') end
local r = keep({state = done, lease = 0, print = cur.print, bind = cur.bind, cause = '', lasterror = cur.lasterror})
r.flags = flag(flag(flag(cur.flags, F_KEPT, false), F_NO_BODY, false), F_DIGEST, false) + flags
r.worked = ''
local retention = cur.retention
if how < 8 then retention, r.retention8 = span, string.sub(ARGV[1], 28) end
r.expires = after(now, retention)
open(false)
-- A hint may fail: a user without rights on channels completes all the same.
if how % 4 >= 2 then redis.pcall('PUBLISH', KEYS[1], '') end
if how % 2 == 1 then
  r.print, r.bind, r.lasterror = '', '', ''
  r.flags = r.flags % 4 + F_NO_BODY + F_NO_PRINT + F_NO_BIND
  local whole = pack(r, NO_ANSWER)
  put(string.sub(whole, 1, 40), r.expires)
  return say(DONE, whole)
end
local head = pack(r, ARGV[2])
put(head .. ARGV[3], r.expires)
return say(DONE, head)
