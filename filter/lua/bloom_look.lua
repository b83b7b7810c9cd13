-- As bloom_add.lua, and nothing is written.
local BITS, K = tonumber(ARGV[5]), tonumber(ARGV[6])
local SIZE, LAYOUT = BITS / 8 + 1, '>' .. string.rep('I4', K)
local answer = {}
for i = 7, #ARGV do
  local part = struct.unpack('>I2', ARGV[i])
  local places = {struct.unpack(LAYOUT, ARGV[i], 3)}
  local seen = false
  for n = 1, COUNT do
    if made[n] and string.byte(made[n], part + 1) == 49 then
      local key = META .. ':' .. live[n] .. ':' .. part
      if redis.call('STRLEN', key) ~= SIZE then whole = false end
      local all = true
      for j = 1, K do
        if redis.call('GETBIT', key, places[j]) == 0 then
          all = false
          break
        end
      end
      seen = seen or all
    end
  end
  answer[#answer + 1] = seen and '0' or '1'
end
if not whole then return 'p' .. string.rep('0', #answer) end
return 'w' .. table.concat(answer)
