-- KEYS: record. ARGV: fence8. Removes from a finished record what tells of a person, and leaves that it is finished.
if absent or cur.fence8 ~= ARGV[1] then return say(FENCE, '') end
if cur.state ~= COMPLETED and cur.state ~= FAILED then return say(IN_PROGRESS, '') end
local flags = cur.flags % 4 + F_NO_BODY + F_NO_PRINT + F_NO_BIND
if #stored == 40 or cur.flags == flags and cur.lasterror == '' and string.sub(cur.raw, cur.answer) == NO_ANSWER then
  redis.call('SET', KEYS[1], stored, 'KEEPTTL') -- a repeat, or the light form; replicas have to confirm this write too
  return say(DONE, '')
end
local r = keep({state = cur.state, flags = flags, lease = 0, expires = cur.expires, print = '', bind = '', cause = cur.cause, lasterror = ''})
put(pack(r, NO_ANSWER), r.expires)
return say(DONE, '')
