-- ARGV: parts, bits of a part, bits of an id; then for each id its part and the places of its bits. The answer is w or p (whole, or in
-- part), and for each id 1 for surely new or 0.
local PARTS, BITS, K = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local SIZE, LAYOUT = BITS / 8 + 1, '>' .. string.rep('I4', K)
local answer, new, changed = {}, 0, {}

-- has tells whether part of a window was made. One that was made and is gone was evicted or deleted.
local function has(n, part, key)
  if not made[n] or string.byte(made[n], part + 1) ~= 49 then return false end
  if redis.call('STRLEN', key) == SIZE then return true end
  lost()
  made[n] = string.sub(made[n], 1, part) .. '0' .. string.sub(made[n], part + 2)
  changed[n] = true
  return false
end

for i = 7, #ARGV do
  local part = struct.unpack('>I2', ARGV[i])
  local places = {struct.unpack(LAYOUT, ARGV[i], 3)}
  local key = META .. ':' .. live[1] .. ':' .. part
  if not has(1, part, key) then
    redis.call('SETBIT', key, SIZE * 8 - 1, 1) -- its whole length, by a bit that no id has
    expire(key)
    made[1] = made[1] or string.rep('0', PARTS)
    made[1] = string.sub(made[1], 1, part) .. '1' .. string.sub(made[1], part + 2)
    changed[1] = true
  end
  -- Into the current window in any case: where an older one takes the id for another, it would else be forgotten with that.
  local seen = true
  for j = 1, K do
    if redis.call('SETBIT', key, places[j], 1) == 0 then seen = false end
  end
  if not seen then new = new + 1 end
  for n = 2, COUNT do
    local older = META .. ':' .. live[n] .. ':' .. part
    if has(n, part, older) and not seen then
      seen = true
      for j = 1, K do
        if redis.call('GETBIT', older, places[j]) == 0 then
          seen = false
          break
        end
      end
    end
  end
  answer[#answer + 1] = seen and '0' or '1'
end
for n in pairs(changed) do redis.call('HSET', META, fields[n], made[n]) end
if new > 0 then redis.call('HINCRBY', META, 'ids ' .. live[1], new) end
if not whole then return 'p' .. string.rep('0', #answer) end
return 'w' .. table.concat(answer)
