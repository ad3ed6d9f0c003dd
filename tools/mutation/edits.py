"""Pairs of statements whose order the protocols rest on, swapped. Each edit replaces texts that
must occur exactly once; `{is}` becomes the condition that its mutant is the active one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    file: str
    function: str
    what: str
    replacements: tuple[tuple[str, str], ...]


DEVICE = "include/mgi/device/"

EDITS = (
    Edit(
        DEVICE + "lane.hpp",
        "deliver_ready",
        "published before the push",
        (
            (
                "            deliver(next, s, content);\n",
                "            if ({is}) published.store(next + 1, release);\n"
                "            deliver(next, s, content);\n",
            ),
        ),
    ),
    Edit(
        DEVICE + "lane.hpp",
        "commit",
        "slot reset behind its publication",
        (
            (
                "        s.committed.store(0, relaxed);\n        return true;\n",
                "        if (!{is}) s.committed.store(0, relaxed);\n        return true;\n",
            ),
            (
                "        slots[u32(sequence) & mask].filled",
                "        struct Late {\n"
                "            Slot<A>& slot;\n"
                "            ~Late() {\n"
                "                if ({is}) slot.committed.store(0, relaxed);\n"
                "            }\n"
                "        } const late{slots[u32(sequence) & mask]};\n"
                "        slots[u32(sequence) & mask].filled",
            ),
        ),
    ),
    Edit(
        DEVICE + "lane.hpp",
        "deliver_alone",
        "no second look",
        (("    } while (ready());", "    } while (!{is} && ready());"),),
    ),
    Edit(
        DEVICE + "lane.hpp",
        "release_reads",
        "free before clean",
        (
            (
                "    clean(slot);\n",
                "    if ({is}) {\n"
                "        slot.sequence.store(slot.sequence.load(relaxed) + slots_in_ring,\n"
                "                            release);\n"
                "        clean(slot);\n"
                "        return true;\n"
                "    }\n"
                "    clean(slot);\n",
            ),
        ),
    ),
    Edit(
        DEVICE + "receive_queue.hpp",
        "push",
        "state before what",
        (
            (
                "        entry.what.store(what, relaxed);\n",
                "        if (!{is}) entry.what.store(what, relaxed);\n",
            ),
            (
                "        entry.state.store(state_of(position, chunks, 0)",
                "        struct Late {\n"
                "            Entry& entry;\n"
                "            u64 what;\n"
                "            ~Late() {\n"
                "                if ({is}) entry.what.store(what, relaxed);\n"
                "            }\n"
                "        } const late{entry, what};\n"
                "        entry.state.store(state_of(position, chunks, 0)",
            ),
        ),
    ),
    Edit(
        DEVICE + "receive_queue.hpp",
        "take",
        "what behind the claim",
        (
            (
                "            u64 const what = entry.what.load(relaxed);\n",
                "            u64 what = entry.what.load(relaxed);\n",
            ),
            (
                "                if (mine + 1 == chunks) advance(position);\n",
                "                if (mine + 1 == chunks) advance(position);\n"
                "                if ({is}) what = entry.what.load(relaxed);\n",
            ),
        ),
    ),
    Edit(
        DEVICE + "delivery.hpp",
        "deliver_lane",
        "readers behind the push",
        (
            (
                "        slot.readers.store(reads * from.reader_count + from.moves, relaxed);\n",
                "        if (!{is}) {\n"
                "            slot.readers.store(reads * from.reader_count + from.moves, "
                "relaxed);\n"
                "        }\n",
            ),
            (
                "queue->push(what, chunks);\n            }\n        }\n",
                "queue->push(what, chunks);\n            }\n        }\n"
                "        if ({is}) {\n"
                "            slot.readers.store(reads * from.reader_count + from.moves, "
                "relaxed);\n"
                "        }\n",
            ),
        ),
    ),
    Edit(
        DEVICE + "delivery.hpp",
        "push_arrived",
        "content and readers behind the push",
        (
            (
                "    to.content.store(content, relaxed);\n",
                "    if ({is}) {\n"
                "        at.queue->push(ChannelState<A>::describe(source, slot), chunks);\n"
                "    }\n"
                "    to.content.store(content, relaxed);\n",
            ),
            (
                "    at.queue->push(",
                "    if (!{is}) at.queue->push(",
            ),
        ),
    ),
    Edit(
        "src/mover/channel_moves.hpp",
        "finish",
        "delivered before the push",
        (
            (
                "    std::uint32_t count = 0;\n",
                "    std::uint32_t count = 0;\n"
                "    if ({is}) moves.end.set_delivered(moves.next);\n",
            ),
        ),
    ),
    Edit(
        "src/mover/far_route.hpp",
        "has_credit",
        "more on their way than a window",
        (
            (
                " && this->in_flight() < end_.flow->window();",
                " && ({is} || this->in_flight() < end_.flow->window());",
            ),
        ),
    ),
    Edit(
        "src/mover/copy_route.hpp",
        "has_credit",
        "brought on before it has come",
        (
            (
                "if (before_ != nullptr && before_->finished() <= next()) return false;",
                "if (!{is} && before_ != nullptr && before_->finished() <= next()) return false;",
            ),
        ),
    ),
    Edit(
        "src/mover/copy_route.hpp",
        "has_credit",
        "overwritten before it was brought on",
        (
            (
                "return behind_ == nullptr || next()",
                "return {is} || behind_ == nullptr || next()",
            ),
        ),
    ),
)
