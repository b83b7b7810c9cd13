-- KEYS: the counts of a tenant. ARGV: keys, bytes, how long they count, width of a bucket, most keys, most bytes, time between two keys of
-- the rate, time of a burst; times in microseconds, zero limits are none. It stands alone: what other scripts share is about records.
local REFUSED, DONE = 0, 102
local NEVER = 9007199254740992 -- 2^53
local MOST_RATES = 256
local keys, bytes, span, width = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local live, stored, every, room = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local raw = redis.call('GET', KEYS[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- say is an answer: a byte, the time, and how long to wait.
local function say(code, wait) return string.char(code) .. struct.pack('>I8I8', now, wait) end

-- What still counts, buckets in the order of their ends.
local rates, buckets = {}, {}
if raw then
  if string.byte(raw, 1) ~= 1 then error({err = 'RSFORMAT the counts have a format that this script does not read'}) end
  local n, at = struct.unpack('>I2', raw, 2)
  for _ = 1, n do
    local r = {}
    r.every, r.arrival, at = struct.unpack('>I8I8', raw, at)
    if r.arrival > now then rates[#rates + 1] = r end
  end
  while at <= #raw do
    local b = {}
    b.ends, b.keys, b.bytes, at = struct.unpack('>I8I8I8', raw, at)
    if b.ends > now then buckets[#buckets + 1] = b end
  end
end
local rate
for _, r in ipairs(rates) do
  if r.every == every then rate = r end
end
local arrival = (rate and rate.arrival or now) + keys * every

-- over is how long to wait where something that ends then has to pass first.
local function over(ends) return math.min(math.max(ends - now, 1000000), 60000000) end

if keys > 0 then
  local count = {keys = 0, bytes = 0}
  local first = {keys = NEVER, bytes = NEVER}
  for _, b in ipairs(buckets) do
    for _, what in ipairs({'keys', 'bytes'}) do
      if b[what] > 0 then
        count[what] = count[what] + b[what]
        first[what] = math.min(first[what], b.ends)
      end
    end
  end
  local wait = 0
  if live > 0 and count.keys + keys > live then wait = math.max(wait, over(first.keys)) end
  if stored > 0 and count.bytes >= stored then wait = math.max(wait, over(first.bytes)) end
  if every > 0 then wait = math.max(wait, arrival - now - room) end
  if every > 0 and not rate and #rates >= MOST_RATES then wait = math.max(wait, 1000000) end
  if wait > 0 then return say(REFUSED, wait) end
end

if rate then
  rate.arrival = arrival
elseif every > 0 then
  rates[#rates + 1] = {every = every, arrival = arrival}
end
local ends = math.min(math.ceil((now + span) / width) * width, NEVER)
-- add counts n in the bucket that ends then; what is given back is taken from that and those before it, the last first.
local function add(what, n)
  if n > 0 then
    local at = 1
    while buckets[at] and buckets[at].ends < ends do at = at + 1 end
    if not buckets[at] or buckets[at].ends ~= ends then table.insert(buckets, at, {ends = ends, keys = 0, bytes = 0}) end
    buckets[at][what] = buckets[at][what] + n
    return
  end
  for at = #buckets, 1, -1 do
    local b = buckets[at]
    if b.ends <= ends then
      local part = math.min(b[what], -n)
      b[what], n = b[what] - part, n + part
    end
  end
end
add('keys', keys)
add('bytes', bytes)

local last, left, packed = 0, 0, {}
for _, r in ipairs(rates) do
  if r.arrival > now then
    left, last = left + 1, math.max(last, r.arrival)
    packed[#packed + 1] = struct.pack('>I8I8', r.every, r.arrival)
  end
end
for _, b in ipairs(buckets) do
  if b.keys > 0 or b.bytes > 0 then
    last = math.max(last, b.ends)
    packed[#packed + 1] = struct.pack('>I8I8I8', b.ends, b.keys, b.bytes)
  end
end
if #packed > 0 then
  redis.call('SET', KEYS[1], struct.pack('>BI2', 1, left) .. table.concat(packed), 'PXAT', string.format('%.0f', math.ceil(last / 1000)))
else
  redis.call('DEL', KEYS[1])
end
return say(DONE, 0)
