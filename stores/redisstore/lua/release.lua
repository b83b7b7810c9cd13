-- KEYS: record, and the index of unfinished records if there is one. ARGV: fence8 and owner; empty for the record's retention, or retention8 and its digits; in doubt; cause; last error; 1 to publish.
local doubt = ARGV[3] == '1'
if not mine(ARGV[1]) then return say(LOST, '') end
if (cur.state == RELEASED and not doubt) or (abandoned() and doubt) then return say(DONE, '') end -- a repeat
if cur.state ~= RUNNING then return say(LOST, '') end
local r = keep({state = RUNNING, flags = cur.flags, lease = 0, print = cur.print, bind = cur.bind, cause = ARGV[4], lasterror = ARGV[5]})
local retention = cur.retention
if ARGV[2] ~= '' then retention, r.retention8 = tonumber(string.sub(ARGV[2], 9)), string.sub(ARGV[2], 1, 8) end
r.expires = after(now, retention)
open(doubt)
if doubt then
  local f = string.byte(cur.worked) or 0
  if cur.lease <= now and not has(f, 4) then -- the doubt began before it was given up
    r.worked = string.char(f + 4) .. int8(cur.lease) .. string.sub(cur.worked, 2)
  end
  if not cur.reexecute then r.expires = 0 end -- nothing but a person removes it
else
  r.state = RELEASED
  if string.byte(cur.raw, cur.answer) == 0 then -- no progress: the next call need not be the same one
    r.print, r.bind = '', ''
    r.flags = flag(flag(r.flags, F_NO_PRINT, true), F_NO_BIND, true)
  end
  if r.expires ~= 0 then r.expires = math.max(r.expires, cur.notafter + 1) end -- a late repeat of the Acquire must meet the record
end
put(pack(r, string.sub(cur.raw, cur.answer)), r.expires)
if ARGV[6] == '1' then redis.pcall('PUBLISH', KEYS[1], '') end
return say(DONE, '')
