-- KEYS: record. ARGV: fence8 and owner, lease; 1 if the work begins now; and only with progress: its flags, codec to digest, body.
if not mine(ARGV[1]) or cur.state ~= RUNNING or abandoned() then return say(LOST, '') end
local r = keep({state = RUNNING, flags = cur.flags, print = cur.print, bind = cur.bind, cause = cur.cause, lasterror = cur.lasterror})
r.lease = now + tonumber(ARGV[2])
r.expires = cur.reexecute and after(r.lease, cur.retention) or 0
local answer = string.sub(cur.raw, cur.answer)
local function order(head) return (struct.unpack('>I8', head, 2 + string.byte(head))) end
if ARGV[3] == '1' and string.byte(r.worked) then -- it asks no more
  local f = string.byte(r.worked)
  local cut, list = has(f, 2) and 2 or 0, string.sub(r.worked, has(f, 4) and 10 or 2)
  r.worked = (cut > 0 or list ~= '') and string.char(cut) .. list or ''
end
if ARGV[4] and order(ARGV[5]) > order(answer) then -- not a repeat, and not late
  r.flags = flag(flag(flag(r.flags, F_KEPT, false), F_NO_BODY, false), F_DIGEST, false) + string.byte(ARGV[4])
  answer = ARGV[5] .. ARGV[6]
end
put(pack(r, answer), r.expires)
return say(DONE, '')
