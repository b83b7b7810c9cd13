-- lost begins a new epoch: a rebuild that has put something in before cannot mark the filter as whole.
local function lost()
  whole = false
  epoch = run .. '.' .. clock[1] .. '.' .. clock[2]
  redis.call('HSET', META, 'format', FORMAT, 'run', run, 'whole', '0', 'epoch', epoch)
end
if not known[1] or known[2] ~= run then lost() end
if tonumber(known[3] or -1) ~= turn then
  redis.call('HSET', META, 'turn', live[1])
  for _, field in ipairs(redis.call('HKEYS', META)) do
    local of = tonumber(string.match(field, '^%a+ (%d+)$'))
    if of and of <= turn - COUNT then redis.call('HDEL', META, field) end
  end
end

-- expire lets a key go when its window is none any more, and a little later.
local function expire(key)
  if WINDOW > 0 then redis.call('PEXPIREAT', key, string.format('%.0f', (turn + COUNT) * WINDOW + 60000)) end
end
