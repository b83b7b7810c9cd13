-- KEYS: record. ARGV: owner, fence8, retention (empty: the record's), retention8, in doubt, cause, last error.
local doubt = ARGV[5] == '1'
if not mine(ARGV[1], ARGV[2]) then return {LOST, NOW, ''} end
if (cur.state == RELEASED and not doubt) or (abandoned() and doubt) then return {DONE, NOW, ''} end -- a repeat
if cur.state ~= RUNNING then return {LOST, NOW, ''} end
local r = keep({state = RUNNING, flags = cur.flags, lease = 0, print = cur.print, bind = cur.bind, cause = ARGV[6], lasterror = ARGV[7]})
local retention = cur.retention
if ARGV[3] ~= '' then retention, r.retention8 = tonumber(ARGV[3]), ARGV[4] end
r.expires = after(now, retention)
if doubt then
  if not cur.reexecute then r.expires = 0 end -- nothing but a person removes it
else
  r.state, r.print, r.bind = RELEASED, '', ''
  r.flags = flag(flag(r.flags, F_NO_PRINT, true), F_NO_BIND, true)
  if r.expires ~= 0 then r.expires = math.max(r.expires, cur.notafter + 1) end -- a late repeat of the Acquire must meet the record
end
put(pack(r, string.sub(cur.raw, cur.answer)), r.expires)
return {DONE, NOW, ''}
