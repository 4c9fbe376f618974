"""ONLINE: one conversation, turn by turn. Start reading at `bot.dialogue`."""
