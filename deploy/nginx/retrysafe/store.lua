-- The records in Redis. The scripts of package redisstore make all decisions there; this module
-- only calls them.
local redis = require "retrysafe.library" "redis"
local digest = require "retrysafe.digest"
local keys = require "retrysafe.key"
local scripts = require "retrysafe.scripts"
local be8, number = digest.be8, digest.number

local M = {WON = 1, IN_PROGRESS = 2, FINISHED = 3, IN_DOUBT = 4, MISMATCH = 5, PRINCIPAL = 6, LOST = 100}
M.__index = M
local FRESH, LATE = 99, 101

-- forever is the retention without an end, which a Lua number cannot hold.
local forever = "\0\32\196\155\165\227\83\247"

for name, s in pairs(scripts) do
  if digest.hex(ngx.sha1_bin(s.source)) ~= s.sha1 then error("retrysafe: the script " .. name .. " is not that of redisstore", 0) end
end

local released_for = 300 -- seconds

-- new returns a store; o are the options of retrysafe.new.
function M.new(o)
  local s = setmetatable({o = o, lease = o.lease * 1e6, owed = {}}, M)
  s.unfinished = o.prefix .. "unfinished" -- the index of records in progress
  s.span8 = o.retention == "forever" and forever or be8(o.retention * 1e6)
  -- A released record has no answer. It stays only for late repetitions of its claim, for minutes;
  -- otherwise refused requests would fill the store.
  local released = math.min(o.retention == "forever" and released_for or o.retention, released_for) * 1e6
  s.released = be8(released) .. ("%.0f"):format(released)
  return s
end

local function now()
  ngx.update_time()
  return ngx.now() * 1e6
end

-- same_secret compares the secret with the check value that gateways and services keep for the
-- namespace, if there is one. It returns nil and the reason if it is another one: known callers would
-- be new ones, and their requests would run again.
local function same_secret(r, o)
  local v, err = r:get(o.prefix .. keys.check_of(o.namespace))
  if v == ngx.null then return true end
  if not v then return nil, err end
  local at = 82 + (v:byte(81) or 0) -- after the fingerprint: the binding, which is the value
  if v:sub(at + 1, at + (v:byte(at) or 0)) == digest.check(o.secret) then return true end
  return nil, "the secret is not the one that namespace " .. o.namespace .. " was used with; set RETRYSAFE_SECRET to that of the other " ..
    "gateways, or replace it on purpose with: retrysafe secret replace"
end

-- connect returns a connection that is logged in. It refuses a server that may drop records.
function M:connect()
  local r, o = redis:new(), self.o.redis
  r:set_timeout(o.timeout * 1000)
  local ok, err
  if o.socket then
    ok, err = r:connect("unix:" .. o.socket, {pool = o.pool})
  else
    ok, err = r:connect(o.host, o.port, {pool = o.pool})
  end
  if not ok then return nil, err end
  if r:get_reused_times() == 0 then
    if o.password then
      if o.username then ok, err = r:auth(o.username, o.password) else ok, err = r:auth(o.password) end
      if not ok then return nil, err end
    end
    if o.database ~= 0 then
      ok, err = r:select(o.database)
      if not ok then return nil, err end
    end
  end
  if not self.looked then
    local kept, info
    kept, err = r:config("get", "maxmemory-policy") -- false if the user may not read it, or the server has no CONFIG
    if kept == nil then return nil, err end
    local policy = type(kept) == "table" and kept[2]
    if not policy then
      info, err = r:info("memory") -- false if the user may not read that either
      if info == nil then return nil, err end
      policy = type(info) == "string" and info:match("maxmemory_policy:([%w-]+)")
    end
    if policy and policy ~= "noeviction" and not o.allow_eviction then
      r:close()
      return nil, "the server drops records for want of memory (maxmemory-policy), and each drop lets a key run again"
    end
    ok, err = same_secret(r, self.o)
    if not ok then
      r:close()
      return nil, err
    end
    local clock
    clock, err = r:time()
    if not clock then return nil, err end
    self.ahead, self.looked = clock[1] * 1e6 + clock[2] - now(), true
  end
  return r
end

-- eval runs a script. It returns the number of its answer, the bytes after the time, and the time.
-- On failure it returns nil, the error, and whether the script may have run.
function M:eval(script, key, ...)
  local r, err = self:connect()
  if not r then return nil, err, false end
  local reply
  reply, err = r:evalsha(script.sha1, 2, key, self.unfinished, ...)
  if reply == false and err:find("^NOSCRIPT") then reply, err = r:eval(script.source, 2, key, self.unfinished, ...) end
  if not reply then
    if reply == nil then r:close() else r:set_keepalive(60000, self.o.redis.connections) end
    return nil, err, reply == nil
  end
  r:set_keepalive(60000, self.o.redis.connections)
  if type(reply) ~= "string" or #reply < 9 then return nil, "the reply is not that of the script", true end
  local at = number(reply, 2, 8)
  self.ahead = at - now()
  return reply:byte(1), reply:sub(10), at
end

-- fields returns the fields of a packed record that are needed here; docs/formats.md has the
-- layout.
local function fields(raw)
  local r = {
    state = raw:byte(2), flags = raw:byte(3), attempt = number(raw, 5, 4), fence8 = raw:sub(9, 16), owner = raw:sub(17, 32),
    lease = number(raw, 33, 8),
  }
  local at = 81
  for _ = 1, 3 do at = at + 1 + raw:byte(at) end -- fingerprint, binding, cause
  at = at + 2 + number(raw, at, 2)
  at = at + 1 + raw:byte(at) -- earlier attempts
  local n = raw:byte(at)
  -- what follows a semicolon is the trace of the call
  r.codec, at = raw:sub(at + 1, at + n):match("^[^;]*"), at + 1 + n
  r.size, at = number(raw, at, 8), at + 8
  r.kept = r.flags % 8 >= 4
  if r.flags >= 64 then r.digest, at = raw:sub(at, at + 31), at + 32 end
  r.body = raw:sub(at)
  return r
end

-- acquire claims the key. It returns the script's decision, the record and the time, or nil and the
-- reason. A try without an answer may have acquired the key: it is repeated with the same owner,
-- and a claim that is left over is released later.
function M:acquire(claim)
  local unanswered, last_err, not_after = false, nil, 0
  for _ = 1, 3 do
    if not self.ahead then
      local r, err = self:connect()
      if not r then return nil, err end
      r:set_keepalive(60000, self.o.redis.connections)
    end
    not_after = now() + self.ahead + self.o.redis.timeout * 2e6
    not_after = not_after - not_after % 1
    local flags = 8 + (claim.reexecute and 1 or 0) + (claim.binding and 0 or 32)
    local binding = claim.binding or ""
    local opening = string.char(1, 2, flags, 0, 0, 0, 0, 1) .. claim.owner .. be8(self.lease)
    local behind = be8(not_after) .. self.span8 .. string.char(#claim.print) .. claim.print .. string.char(#binding) .. binding ..
      ("\0"):rep(13)
    local code, rest, at = self:eval(scripts.acquire, claim.key, opening, behind)
    if code == FRESH then return M.WON, {attempt = 1, fence8 = be8(at), owner = claim.owner} end
    if code and code ~= LATE then
      if unanswered and code ~= M.WON then self:owe {kind = "claim", key = claim.key, owner = claim.owner, not_after = not_after} end
      return code, fields(rest), at
    end
    last_err = code and "the clock of the server is not what it was" or rest
    if not code then
      unanswered = unanswered or at
      if not at then break end -- refused, or there is no connection
    end
  end
  if unanswered then self:owe {kind = "claim", key = claim.key, owner = claim.owner, not_after = not_after} end
  return nil, last_err
end

-- complete stores an answer. It returns true, "lost", or nil if the store has not confirmed it;
-- tries then continue in the background.
function M:complete(key, holder, answer)
  local flags = (answer.kept and 4 or 0) + (answer.digest and 64 or 0)
  local args = {holder .. string.char(flags, 3, 0) .. self.span8,
    string.char(#answer.codec) .. answer.codec .. be8(answer.size) .. (answer.digest or ""), answer.body}
  return self:settle {kind = "complete", key = key, args = args, size = #answer.body, tries = 3}
end

-- release releases the key, or puts it in doubt.
function M:release(key, holder, doubt, cause)
  return self:settle {kind = "release", key = key, args = {holder, doubt and "" or self.released, doubt and "1" or "0", cause, ""}, size = 0, tries = 2}
end

function M:settle(debt)
  for _ = 1, debt.tries do
    local done = self:pay(debt)
    if done then return done end
  end
  self:owe(debt)
end

-- pay tries an unconfirmed call once. It returns nil if the call must be tried again.
function M:pay(debt)
  if debt.kind == "claim" then return self:give_back(debt) end
  local code, err, sent = self:eval(scripts[debt.kind], debt.key, unpack(debt.args))
  if code then return code == M.LOST and "lost" or true end
  ngx.log(sent and ngx.WARN or ngx.ERR, "retrysafe: ", debt.kind, ": ", err)
end

-- give_back releases a claim whose reply was lost, once it cannot be applied any more.
function M:give_back(debt)
  local code, raw, at = self:eval(scripts.lookup, debt.key, "1")
  if not code or at <= debt.not_after then return nil end
  local r = raw ~= "" and fields(raw)
  if not r or r.owner ~= debt.owner or r.state ~= 2 or r.lease == 0 then return true end
  return self:eval(scripts.release, debt.key, r.fence8 .. r.owner, self.released, "0", "unanswered", "") and true
end

local most_owed = 64 * 1048576 -- bytes in each worker

-- owe keeps a call that the store has not confirmed, and tries it again for an hour. One timer per
-- worker does this for all calls.
function M:owe(debt)
  debt.till, debt.size = now() + 3600e6, (debt.size or 0) + 1024
  if (self.owing or 0) + debt.size > most_owed then
    ngx.log(ngx.ERR, "retrysafe: too much waits for the store; a key is left to lapse")
    return
  end
  self.owing = (self.owing or 0) + debt.size
  self.owed[#self.owed + 1] = debt
  if not self.paying then
    self.paying = ngx.timer.at(0, function() self:pay_all() end)
  end
end

function M:pay_all()
  while #self.owed > 0 and not ngx.worker.exiting() do
    ngx.sleep(1)
    local due = self.owed
    self.owed = {}
    for i, debt in ipairs(due) do
      local ok, done = pcall(self.pay, self, debt)
      if ok and done or now() > debt.till then
        self.owing = self.owing - debt.size
      else
        self.owed[#self.owed + 1] = debt
      end
      if ngx.worker.exiting() then break end
      if not ok and i == 1 then ngx.log(ngx.ERR, "retrysafe: ", done) end
    end
  end
  self.paying = false
end

return M
