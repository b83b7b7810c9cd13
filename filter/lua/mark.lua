-- ARGV: what to do: begin, which gives the epoch; end, which marks the filter as whole where the epoch is still the next argument; mark, which does
-- so in any case.
local WHAT = ARGV[4]
if WHAT == 'begin' then
  redis.call('HSET', META, 'whole', '0')
  return epoch
end
if WHAT == 'end' and epoch ~= ARGV[5] then return 'lost' end
redis.call('HSET', META, 'whole', '1')
return 'whole'
