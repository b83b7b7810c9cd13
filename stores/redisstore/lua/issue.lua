-- KEYS: record. ARGV: owner, retention.
if not absent then
  if cur.state == ISSUED and cur.owner == ARGV[1] then return say(WON, '') end
  return say(ALREADY, '')
end
local r = {
  state = ISSUED, attempt = 0, owner = ARGV[1], print = '', bind = '', cause = '', lasterror = '', worked = '', created8 = now8, lease = 0,
  fence8 = cur and cur.fence8 or ZERO8, notafter8 = ZERO8, retention8 = ZERO8, flags = F_ISSUED + F_NO_BODY + F_NO_PRINT + F_NO_BIND,
}
r.expires = after(now, tonumber(ARGV[2]))
put(pack(r, NO_ANSWER), r.expires)
return say(WON, '')
