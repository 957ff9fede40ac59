-- The next fence, by the clock every time: the client may have connected before the server lost its data.
local function mint(floor) return next_fence(fence, '@' .. floor) end

-- Begins a hold; saved is set for one that is handed over: the previous editor saved. Returns the hold and its text.
local function begin_hold(person, ask, count, left_ms, saved)
  local is_handed = saved ~= nil
  local hold = {version = 1, fence = whole(count), step = 0, user = person.user, name = person.name, tab = person.tab}
  hold.since_ms, hold.until_ms, hold.ask = now_ms, now_ms + left_ms, ask
  hold.unclaimed, hold.saved = is_handed or nil, saved
  local text = write_hold(hold)
  begin_entry(hold)
  publish(is_handed and 'document_force_taken' or 'document_locked', person, saved, state_json(text))
  return hold, text
end

-- Hands an ended hold to the taker that marked it, which has 5 s to claim it, so that a dead one costs no more.
local function hand_over(ended, saved)
  return begin_hold(ended.taking, ended.taking.ask, mint('0'), 5000, saved)
end

-- Ends a hold for its owner. Returns the text of the hold that follows, if one does.
local function end_or_hand_over(hold, reason, saved)
  if hold.taking then
    end_hold(hold, 'taken', now_ms, hold.taking)
    return select(2, hand_over(hold, saved))
  end
  end_hold(hold, reason, now_ms, hold)
  publish('document_unlocked', hold, nil, state_json())
end
