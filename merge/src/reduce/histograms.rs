//! Native histogram samples: kept as they are, the first in pool order (decision 22).

use super::rows::ROW_UNITS;
use super::{Reducer, Stage, count_one};
use crate::number::write_time;
use crate::sample::Histogram;
use crate::write::Output;

impl<'a> Reducer<'a> {
    /// Whether any source has a histogram at `time`. Times are asked for in rising order.
    pub(super) fn histogram_at(&mut self, time: i64) -> bool {
        let is_vector = self.rules.is_vector;
        let mut found = false;
        for source in &mut self.sources {
            while let Some(histogram) = source.histograms.get(source.next) {
                if is_vector || histogram.time_ms >= time {
                    found |= is_vector || histogram.time_ms == time;
                    break;
                }
                source.next += 1;
            }
        }
        found
    }

    pub(super) fn rewind_histograms(&mut self) {
        for source in &mut self.sources {
            source.next = 0;
        }
    }

    /// Writes the histogram of the earliest time. Returns units used.
    pub(super) fn histogram_row(&mut self, out: &mut Output) -> usize {
        let heads = self
            .sources
            .iter()
            .filter_map(|source| source.histograms.get(source.next));
        let Some(time) = heads.map(|histogram| self.time_of(histogram.time_ms)).min() else {
            self.close(out, Stage::Idle);
            return 1;
        };
        let mut chosen: Option<(u32, &'a Histogram<'a>)> = None;
        let (mut is_disputed, mut groups_disagree) = (false, false);
        for source in &mut self.sources {
            let Some(histogram) = source.histograms.get(source.next) else {
                continue;
            };
            if !self.rules.is_vector && histogram.time_ms != time {
                continue;
            }
            source.next += 1;
            let (group, kept) = *chosen.get_or_insert((source.origin.group, histogram));
            let differs = kept.text != histogram.text;
            is_disputed |= differs && group == source.origin.group;
            groups_disagree |= differs && group != source.origin.group;
        }
        let Some((group, histogram)) = chosen else {
            return 1;
        };
        if is_disputed {
            count_one(&mut self.conflicts, group);
        }
        if groups_disagree && self.keeps_first() {
            self.doubts.group_conflicts += 1;
            self.doubts.is_shared_unevenly = true;
        }
        self.write_histogram(out, histogram);
        ROW_UNITS * self.sources.len() + histogram.text.len() / 4
    }

    fn write_histogram(&mut self, out: &mut Output, histogram: &Histogram<'a>) {
        let is_first = self.is_unwritten;
        self.open(out, false);
        let room = out.room();
        if !is_first && self.has_floats {
            // The floats of this series are written: their array ends here, once.
            self.has_floats = false;
            room.extend_from_slice(b"],\"histograms\":[");
        } else if !is_first {
            room.push(b',');
        }
        self.has_floats &= !is_first;
        room.push(b'[');
        write_time(room, histogram.time_ms);
        room.push(b',');
        room.extend_from_slice(histogram.text);
        room.push(b']');
    }
}
