use super::*;

#[test]
fn the_options_of_the_lookup_are_all_told_to_info() {
    let info = Info::augment_args(clap::Command::new("info"));
    let heading = |arg: &&clap::Arg| arg.get_help_heading() == Some("Names");
    let ids: Vec<String> = info.get_arguments().filter(heading).map(|arg| arg.get_id().to_string()).collect();
    assert_eq!(ids, lookup::LOOKUP);
}
