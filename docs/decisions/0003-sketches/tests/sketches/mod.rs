//! Every sketch, and the tests of this build for each.

use warpweft_conformance::conformance;
use warpweft_policy_sketches::cforall::Cforall;
use warpweft_policy_sketches::go::Go;
use warpweft_policy_sketches::libfibre::Libfibre;
use warpweft_policy_sketches::lifo_slot::LifoSlot;
use warpweft_policy_sketches::negele::Negele;
use warpweft_policy_sketches::prows::ProWs;
use warpweft_policy_sketches::staged::Stage;

conformance!(mod cforall = Cforall);
conformance!(mod go = Go);
conformance!(mod libfibre = Libfibre);
conformance!(mod lifo_slot = LifoSlot(4));
conformance!(mod negele = Negele);
conformance!(mod prows = ProWs);
conformance!(mod staged = Stage(4));
