local retention, behind, unusual = struct.unpack('>I8', ARGV[2], 9), ARGV[2], ARGV[3] or ''
local flags, iffence, force, must, asks, finish = string.byte(new, 3), '', false, false, false, nil
if unusual ~= '' then
  local u = string.byte(unusual)
  force, must, asks = has(u, 1), has(u, 2), has(u, 8)
  if has(u, 4) then iffence = string.sub(unusual, 2, 9) end
  if has(u, 16) then finish = read(ARGV[4]) end
end
local reexecute, noprint, nobind = has(flags, F_REEXECUTE), has(flags, F_NO_PRINT), has(flags, F_NO_BIND)
local n = string.byte(behind, 17)
local print = string.sub(behind, 18, 17 + n)
local m = string.byte(behind, 18 + n)
local bind = string.sub(behind, 19 + n, 18 + n + m)

local own = cur and cur.owner == owner
local live = cur and cur.state == RUNNING and cur.lease > now

local function decide()
  if absent and iffence ~= '' then return FENCE end
  if must and (absent or not cur.issued) then return NOT_ISSUED end
  if absent then return WON end
  if finish and cur.fence8 ~= iffence then return FENCE end
  if own and cur.state == RELEASED then return SPENT end
  if iffence ~= '' then
    if own and cur.state == RUNNING and not abandoned() then return WON end
    if cur.fence8 ~= iffence then return FENCE end
    if cur.state == COMPLETED then return FINISHED end
    if live and not force then return IN_PROGRESS end
    return WON
  end
  if #cur.bind > 0 and #bind > 0 and cur.bind ~= bind then return PRINCIPAL end
  if #cur.print > 0 and #print > 0 and string.byte(cur.print) == string.byte(print) and cur.print ~= print then return MISMATCH end
  if cur.state == COMPLETED or cur.state == FAILED then return FINISHED end
  if cur.state ~= RUNNING then return WON end
  if own then return abandoned() and IN_DOUBT or WON end
  if live then return IN_PROGRESS end
  return cur.reexecute and reexecute and WON or IN_DOUBT
end

local status = decide()
if status ~= WON then return told(status) end

local function expiry(r, span)
  r.lease = now + lease
  r.expires = has(r.flags, F_REEXECUTE) and after(r.lease, span) or 0
end

if own and not absent and cur.state == RUNNING then -- a repeat: the lease is renewed
  local r = keep({state = RUNNING, flags = cur.flags, print = cur.print, bind = cur.bind, cause = cur.cause, lasterror = cur.lasterror})
  expiry(r, cur.retention)
  open(true)
  if notafter > cur.notafter then r.notafter8 = string.sub(behind, 1, 8) end
  return say(WON, put(pack(r, string.sub(cur.raw, cur.answer)), r.expires))
end

-- worked is what the new record keeps of earlier attempts that may have worked: flags (1 it asks, 2 more than are kept, 4 a time follows),
-- the time of the doubt that it asks about, 12 bytes each.
local function worked()
  local list, cut, since = '', false, ''
  if not absent and (cur.state == RUNNING or cur.state == RELEASED) then
    local f = string.byte(cur.worked) or 0
    local at = has(f, 4) and 10 or 2
    list, cut = string.sub(cur.worked, at), has(f, 2)
    if asks and cur.state == RUNNING then
      if at == 10 then
        since = string.sub(cur.worked, 2, 9)
      elseif cur.lease == 0 then
        since = string.sub(cur.raw, 57, 64)
      elseif cur.lease <= now then
        since = int8(cur.lease)
      end
    end
    if f % 2 == 0 and (cur.state == RUNNING or cur.reexecute) then list = list .. struct.pack('>I4', cur.attempt) .. cur.fence8 end
  end
  if #list > 16 * 12 then list, cut = string.sub(list, 13), true end
  local f = (asks and 1 or 0) + (cut and 2 or 0) + (since ~= '' and 4 or 0)
  if f == 0 and list == '' then return '' end
  return string.char(f) .. since .. list
end

local r = {
  state = RUNNING, worked = worked(), attempt = 1, owner = owner, print = print, bind = bind, cause = '', lasterror = '', created8 = now8,
  notafter8 = string.sub(behind, 1, 8), retention8 = string.sub(behind, 9, 16), flags = F_NO_BODY + (reexecute and F_REEXECUTE or 0),
}
local answer = NO_ANSWER
r.fence8 = int8(math.max(cur and cur.fence + 1 or 1, now))
if not absent then
  r.attempt, r.created8, r.lasterror = cur.attempt + 1, string.sub(cur.raw, 49, 56), cur.lasterror
  if cur.issued then r.flags = r.flags + F_ISSUED end
  if cur.state == RUNNING or cur.state == RELEASED then -- what has been done so far
    answer = string.sub(cur.raw, cur.answer)
    for _, f in ipairs({F_KEPT, F_NO_BODY, F_DIGEST}) do r.flags = flag(r.flags, f, has(cur.flags, f)) end
  end
  if iffence ~= '' then
    r.flags = flag(r.flags, F_REEXECUTE, cur.reexecute)
    r.retention8, retention = string.sub(cur.raw, 73, 80), cur.retention
  end
  if iffence ~= '' or noprint then r.print, noprint = cur.print, has(cur.flags, F_NO_PRINT) end
  if iffence ~= '' or nobind then r.bind, nobind = cur.bind, has(cur.flags, F_NO_BIND) end
end
if finish then
  for _, f in ipairs({'state', 'print', 'bind', 'cause', 'lasterror', 'worked'}) do r[f] = finish[f] end
  r.flags = flag(finish.flags, F_ISSUED, not absent and cur.issued)
  r.retention8, r.lease, r.expires = string.sub(ARGV[4], 73, 80), 0, after(now, finish.retention)
  open(false)
  return say(WON, put(pack(r, string.sub(ARGV[4], finish.answer)), r.expires))
end
open(true)
r.flags = r.flags + (noprint and F_NO_PRINT or 0) + (nobind and F_NO_BIND or 0)
expiry(r, retention)
return say(WON, put(pack(r, answer), r.expires))
