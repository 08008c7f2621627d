//! Nights: the sessions of a service that began on one day, of one release. What hosts have in common, such as traffic, is in all of them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use icecore_archive::archive::Archive;
use icecore_archive::partition::{NO_SERVICE, Partition, day};
use icecore_archive::schema::DailyRow;
use icecore_archive::{Id, Pool, Selection, Text};

use super::super::Found;
use super::super::listing::service;
use super::sums::{Dailies, OfEvent, Places, of_functions};
use crate::cli::Followed;

/// The label that names a release.
pub(super) const RELEASE: &str = "release";

/// The sessions of a service that began on one day, of one release.
#[derive(Debug, Clone)]
pub(super) struct Night {
    /// The begin of the first of them, µs since 1970-01-01 UTC.
    pub(super) begin_us: i64,
    /// The begin of the last of them.
    pub(super) last_us: i64,
    /// The release; empty if no label says it.
    pub(super) release: String,
    pub(super) sessions: u64,
    pub(super) samples: u64,
    /// Some of its recordings were not pruned.
    pub(super) is_stored: bool,
}

/// The nights of each service in the order of time, and in which every session lies: by service and night.
#[derive(Debug)]
pub(super) struct Nights {
    pub(super) services: Vec<(String, Vec<Night>)>,
    pub(super) of: Places,
    /// What is left of recordings that were pruned.
    pub(super) dailies: Dailies,
}

/// A night that is being made: its sessions, and the positions of its daily sums.
struct Making {
    night: Night,
    ids: Vec<Id>,
    dailies: Vec<usize>,
}

impl Making {
    fn new(begin_us: i64, release: &str) -> Self {
        let release = release.to_owned();
        let night = Night { begin_us, last_us: begin_us, release, sessions: 0, samples: 0, is_stored: false };
        Self { night, ids: Vec::new(), dailies: Vec::new() }
    }
}

impl Nights {
    /// Finds the nights of sessions.
    pub(super) fn of_sessions(found: &Found) -> Self {
        Self::new(found, Pool::default(), Vec::new())
    }

    /// Finds the nights of sessions, and of those that were pruned.
    ///
    /// # Errors
    /// If a table cannot be read.
    fn of_all(found: &Found, archive: &Archive, selection: &Selection) -> anyhow::Result<Self> {
        let (mut pool, mut rows) = (Pool::default(), Vec::new());
        archive.daily(
            |partition| selection.may_be_in(partition),
            &mut pool,
            |partition, of_partition| {
                rows.extend(of_partition.into_iter().map(|row| (partition.clone(), row)));
            },
        )?;
        rows.retain(|(partition, row)| selection.has_daily(&pool, partition, &row.of));
        Ok(Self::new(found, pool, rows))
    }

    /// Sums the functions of selected sessions, and of those that were pruned, over nights: one sum for each service.
    ///
    /// # Errors
    /// If a table cannot be read, or nothing is selected.
    pub(super) fn with_functions(
        archive: &Archive,
        selection: &Selection,
        Followed { event, sort }: &Followed,
    ) -> anyhow::Result<(Self, Vec<OfEvent>)> {
        let found = Found::of(archive, selection)?;
        let mut nights = Self::of_all(&found, archive, selection)?;
        if nights.services.is_empty() {
            found.or_none(archive)?;
        }
        let sums = of_functions(
            archive,
            |partition| selection.may_be_in(partition),
            (&nights.sets(), &nights.of),
            (event.as_deref(), *sort),
            std::mem::take(&mut nights.dailies),
        )?;
        let sums = sums.context("no selected recording has samples of this event")?;
        Ok((nights, sums))
    }

    fn new(found: &Found, pool: Pool, dailies: Vec<(Partition, DailyRow)>) -> Self {
        let mut services: BTreeMap<String, BTreeMap<(String, String), Making>> = BTreeMap::new();
        for row in found.listed.iter().map(|it| &it.row) {
            let is_release = |label: &&(Text, Text)| found.index.text(label.0) == RELEASE;
            let release = row.labels.iter().find(is_release).map_or("", |label| found.index.text(label.1));
            let begin_us = row.span_us.0;
            let nights = services.entry(service(found, row).to_owned()).or_default();
            let night = nights.entry((day(begin_us), release.to_owned()));
            let Making { night, ids, .. } = night.or_insert_with(|| Making::new(begin_us, release));
            night.begin_us = night.begin_us.min(begin_us);
            night.last_us = night.last_us.max(begin_us);
            night.sessions += 1;
            night.is_stored = true;
            night.samples += row.samples.unsigned_abs();
            ids.push(row.recording);
        }
        for (position, (partition, row)) in dailies.iter().enumerate() {
            let text = |text: Option<Text>, or| text.map_or(or, |text| pool.text(text));
            let (service, release) = (text(row.of.service, NO_SERVICE), text(row.of.release, ""));
            let nights = services.entry(service.to_owned()).or_default();
            let night = nights.entry((partition.day.clone(), release.to_owned()));
            let night = night.or_insert_with(|| Making::new(partition.begin_us(), release));
            // A function that every session hits says how many there were.
            night.night.sessions = night.night.sessions.max(row.sessions.unsigned_abs());
            night.dailies.push(position);
        }
        let (mut of, mut places) = (Places::new(), vec![(0, 0); dailies.len()]);
        let services = services.into_iter().enumerate().map(|(set, (service, nights))| {
            let mut nights: Vec<Making> = nights.into_values().collect();
            nights.sort_by_key(|it| it.night.begin_us);
            for (group, it) in nights.iter().enumerate() {
                of.extend(it.ids.iter().map(|id| (*id, (set, group))));
                it.dailies.iter().for_each(|position| places[*position] = (set, group));
            }
            (service, nights.into_iter().map(|it| it.night).collect())
        });
        let services = services.collect();
        let rows = places.into_iter().zip(dailies.into_iter().map(|(_, row)| row)).collect();
        Self { services, of, dailies: Dailies { pool, rows } }
    }

    /// The numbers of nights.
    fn sets(&self) -> Vec<usize> {
        self.services.iter().map(|(_, nights)| nights.len()).collect()
    }
}
