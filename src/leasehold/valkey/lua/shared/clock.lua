-- The server's clock.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

local function whole(number) return string.format('%.0f', number) end
